/* SPDX-License-Identifier: MIT */
/* Weights in the files of other programs than NumPy: named for what they are, with the lines of Python that convert
 * them to .npz. */
#include <stdio.h>
#include <string.h>

#include "base/file_kind.h"
#include "train/weights/weights.h"

/* Two lines each; %1$s is the file, %2$s the .npz to write. */
static const struct {
    file_kind_t kind;
    const char *lines, *more;
} conversions[] = {
    {FILE_PYTORCH,
     "import numpy, torch; d = torch.load(\"%1$s\", map_location=\"cpu\", weights_only=True)\n"
     "numpy.savez(\"%2$s\", **{k: v.detach().float().numpy() for k, v in next((d[k] for k in (\"state_dict\", "
     "\"model_state_dict\", \"model\") if k in d), d).items() if torch.is_tensor(v)})",
     ""},
    {FILE_PICKLE,
     "import numpy, pickle; d = pickle.load(open(\"%1$s\", \"rb\"), encoding=\"latin1\")\n"
     "numpy.savez(\"%2$s\", **{k: numpy.asarray(v) for k, v in next((d[k] for k in (\"state_dict\", \"model\") if k in d), "
     "d).items()})",
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

/* The path, if it can stand in a Python string as it is; else a word in its place. */
static void python_path(const char *path, const char *word, char out[200])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@~ ";
    const bool fits = strlen(path) < 120 && path[strspn(path, plain)] == '\0';
    snprintf(out, 200, "%s", fits ? path : word);
}

err_t weights_check_file(const char *path)
{
    unsigned char first[FILE_KIND_BYTES];
    const size_t n = file_kind_peek(path, first);
    const file_kind_t kind = n > 0 ? file_kind(first, n) : FILE_UNKNOWN;
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
        if (conversions[i].kind != kind) continue;
        char from[200], to[200], lines[768];
        python_path(path, "FILE", from);
        const char *slash = strrchr(from, '/'), *name = slash ? slash + 1 : from, *dot = strrchr(name, '.');
        const int n_stem = dot && dot > name ? (int)(dot - from) : (int)strlen(from);
        snprintf(to, sizeof to, "%.*s.npz", n_stem, from);
        snprintf(lines, sizeof lines, conversions[i].lines, from, to);
        RAISE(ERR_DATA,
              "%.200s: %s; weights are read from .npz, to which these two lines of Python convert it%s:\n%s",
              path, file_kind_explain(first, n, NULL).text, conversions[i].more, lines);
    }
    return ERR_OK;
}
