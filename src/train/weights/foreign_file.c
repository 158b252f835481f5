/* SPDX-License-Identifier: MIT */
/* Weights in the files of other programs than NumPy: named for what they are, with the lines of Python that convert
 * them to .npz. */
#include <stdio.h>
#include <string.h>

#include "base/file_kind.h"
#include "base/utf8.h"
#include "train/weights/weights.h"

enum { PATH_SHOWN = 120 };

/* Two lines each; %1$s is the file, %2$s the .npz to write. A training checkpoint holds the weights under any name: the
 * dictionary with the most arrays is taken. */
static const struct {
    file_kind_t kind;
    const char *lines, *more;
} conversions[] = {
    {FILE_PYTORCH,
     "import numpy, torch; d = torch.load(\"%1$s\", map_location=\"cpu\", weights_only=True)\n"
     "numpy.savez(\"%2$s\", **{k: v.detach().float().numpy() for k, v in max([d, *d.values()], key=lambda s: "
     "isinstance(s, dict) and sum(map(torch.is_tensor, s.values()))).items() if torch.is_tensor(v)})",
     ""},
    {FILE_TORCHSCRIPT,
     "import numpy, torch; d = torch.jit.load(\"%1$s\", map_location=\"cpu\").state_dict()\n"
     "numpy.savez(\"%2$s\", **{k: v.detach().float().numpy() for k, v in d.items()})",
     ""},
    {FILE_PICKLE,
     "import numpy, pickle; d = pickle.load(open(\"%1$s\", \"rb\"), encoding=\"latin1\")\n"
     "numpy.savez(\"%2$s\", **{k: numpy.asarray(v) for k, v in max([d, *d.values()], key=lambda s: isinstance(s, dict) "
     "and len(s)).items()})",
     "; a pickle can run any program, so know where it is from"},
    {FILE_SAFETENSORS,
     "import numpy; from safetensors.torch import load_file\n"
     "numpy.savez(\"%2$s\", **{k: v.float().numpy() for k, v in load_file(\"%1$s\").items()})",
     ""},
    {FILE_HDF5,
     "import h5py, numpy; a = {}; h5py.File(\"%1$s\").visititems(lambda k, v: a.update({k: v[()]}) if isinstance(v, "
     "h5py.Dataset) else None)\n"
     "numpy.savez(\"%2$s\", **a)",
     "; Keras's names need a table, --weights-names"},
};

/* The path within quotes of Python; if it cannot be printed, or is long, a word in its place. */
static void python_path(const char *path, const char *word, char out[PATH_SHOWN])
{
    size_t n = 0, length;
    for (const char *at = path; *at; at += length) {
        length = utf8_length(at);
        if (length == 0 || utf8_is_control(at, length) || n + length + 2 > PATH_SHOWN) {
            snprintf(out, PATH_SHOWN, "%s", word);
            return;
        }
        if (*at == '"' || *at == '\\') out[n++] = '\\';
        memcpy(out + n, at, length);
        n += length;
    }
    out[n] = '\0';
}

err_t weights_check_file(const char *path)
{
    unsigned char first[FILE_KIND_BYTES];
    const size_t n = file_kind_peek(path, first);
    const file_kind_t kind = n > 0 ? file_kind(first, n) : FILE_UNKNOWN;
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
        if (conversions[i].kind != kind) continue;
        char from[PATH_SHOWN], to[PATH_SHOWN + 8], lines[768];
        python_path(path, "FILE", from);
        const char *slash = strrchr(from, '/'), *name = slash ? slash + 1 : from, *dot = strrchr(name, '.');
        /* What it converts is not overwritten. */
        const bool cut = dot && dot > name && strcmp(dot, ".npz") != 0;
        const int n_stem = cut ? (int)(dot - from) : (int)strlen(from);
        snprintf(to, sizeof to, "%.*s.npz", n_stem, from);
        snprintf(lines, sizeof lines, conversions[i].lines, from, to);
        RAISE(ERR_DATA,
              "%.200s: %s; weights are read from .npz, to which these two lines of Python convert it%s:\n%s",
              path, file_kind_explain(first, n, NULL).text, conversions[i].more, lines);
    }
    return ERR_OK;
}
