/* SPDX-License-Identifier: MIT */
/* Opens, writes and commits the outputs of predictions. Their content is left to predict.c and predict_detector.c. */
#include "train/inference/prediction_files.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

err_t prediction_files_open(const char *folder, const char *json, prediction_files_t *out)
{
    *out = (prediction_files_t){.folder = folder, .file = {.fd = -1}};
    if (folder) {
        TRY(fs_make_folder(folder));
        TRY(fs_check_writable(folder));
    }
    if (!json) return ERR_OK;
    TRY(fs_temp_open(&out->file, "file", json));
    return fs_temp_stream(&out->file, &out->stream);
}

err_t prediction_files_line(prediction_files_t *files)
{
    TRY(files->json.status);
    if (files->stream && fprintf(files->stream, "%s\n", files->json.text) < 0)
        return fs_temp_fail(&files->file, errno);
    json_reset(&files->json);
    return ERR_OK;
}

err_t prediction_files_picture(const prediction_files_t *files, int64_t index, const char *image,
                               char out[FS_PATH_MAX])
{
    char name[300];
    const char *slash = strrchr(image, '/'), *base = slash ? slash + 1 : image, *dot = strrchr(base, '.');
    int n = dot ? (int)(dot - base) : (int)strlen(base);
    snprintf(name, sizeof name, "%06" PRId64 "-%.*s.png", index + 1, n < 240 ? n : 240, base);
    return fs_join(out, files->folder, name);
}

err_t prediction_files_commit(prediction_files_t *files)
{
    FILE *stream = files->stream;
    if (!stream) return ERR_OK;
    files->stream = NULL;
    if (fclose(stream) != 0) return fs_temp_fail(&files->file, errno);
    return fs_temp_commit(&files->file);
}

void prediction_files_close(prediction_files_t *files)
{
    if (files->stream) fclose(files->stream);
    files->stream = NULL;
    fs_temp_discard(&files->file);
    json_free(&files->json);
}
