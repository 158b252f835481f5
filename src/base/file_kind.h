/* SPDX-License-Identifier: MIT */
/* What a file is, judged by its first bytes: for messages about files that are not what was expected. Files may be
 * hostile. Not collective; raises nothing. */
#ifndef BASE_FILE_KIND_H
#define BASE_FILE_KIND_H

#include <stdbool.h>
#include <stddef.h>

enum { FILE_KIND_BYTES = 512 }; /* that are looked at; fewer are fine */

typedef enum file_kind {
    FILE_UNKNOWN,
    /* In place of the file. */
    FILE_EMPTY,
    FILE_ZEROS, /* all bytes that were given are 0 */
    FILE_WEB_PAGE,
    FILE_SERVER_ERROR, /* such as S3's AccessDenied, or HTTP headers */
    FILE_LFS_POINTER,
    FILE_ANNEX_POINTER,
    FILE_DVC_POINTER,
    /* Images. */
    FILE_JPEG,
    FILE_PNG,
    FILE_WEBP,
    FILE_GIF,
    FILE_BMP,
    FILE_TIFF,
    FILE_HEIC,
    FILE_AVIF,
    FILE_JPEG_2000,
    FILE_JPEG_XL,
    FILE_PHOTOSHOP,
    FILE_SVG,
    FILE_ICON,
    FILE_NETPBM,
    FILE_OPENEXR,
    FILE_RADIANCE,
    FILE_DICOM,
    FILE_QOI,
    FILE_LAST_IMAGE = FILE_QOI,
    /* Archives. FILE_NPZ, FILE_PYTORCH and FILE_TORCHSCRIPT are zips, judged by their first entry. */
    FILE_ZIP,
    FILE_GZIP,
    FILE_BZIP2,
    FILE_XZ,
    FILE_ZSTD,
    FILE_LZ4,
    FILE_COMPRESS,
    FILE_TAR,
    FILE_7Z,
    FILE_RAR,
    FILE_LAST_ARCHIVE = FILE_RAR,
    /* Arrays and records. */
    FILE_NPZ,
    FILE_NPY,
    FILE_PYTORCH, /* torch.save's zip, or its older pickle */
    FILE_TORCHSCRIPT,
    FILE_PICKLE,
    FILE_SAFETENSORS,
    FILE_HDF5,
    FILE_GGUF,
    FILE_ONNX,
    FILE_TFLITE,
    FILE_IDX, /* any of its types */
    FILE_TFRECORD,
    FILE_MXNET_RECORD,
    FILE_PARQUET,
    FILE_MATLAB,
    FILE_SQLITE,
    FILE_DPTRAIN, /* a checkpoint, shard or index of dptrain */
    /* Other. */
    FILE_JSON,
    FILE_XML,
    FILE_PDF,
    FILE_POSTSCRIPT,
    FILE_VIDEO,
    FILE_APPLE_DOUBLE, /* what macOS stores beside a file, as ._NAME */
    FILE_SCRIPT,
    FILE_PROGRAM,
    FILE_UTF16,
    FILE_N_KINDS
} file_kind_t;

file_kind_t file_kind(const void *first, size_t n_bytes);

/* Any image, also JPEG and PNG. Compressed files and archives: they must be unpacked. */
bool file_kind_is_image(file_kind_t kind);
typedef struct file_words {
    char text[256]; /* without control characters */
} file_words_t;

/* What the bytes are and what to do, to follow "X is not an IDX file: ":
 *   "it is a Git LFS pointer; run git lfs pull in its repository"
 *   "it is a web page (HTML) titled '404 Not Found' in place of the file; download it again"
 *   "it begins with 'hello world'; ADVICE"
 *   "it begins with 00 00 01 9c 20; ADVICE"
 *
 *   advice  what to do where the kind alone does not tell; NULL: nothing */
file_words_t file_kind_explain(const void *first, size_t n_bytes, const char *advice);

/* Reads the first bytes of a regular file; never waits for a FIFO. Returns their number, 0 if it cannot be read. */
size_t file_kind_peek(const char *path, unsigned char first[FILE_KIND_BYTES]);

#endif
