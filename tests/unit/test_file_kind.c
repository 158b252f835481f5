/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Kinds of files by their first bytes, and what is said of them. */
#include "tests/tap.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_kind.h"

/* Binary texts end at the last byte that is given; their NUL is not part of them. */
#define BYTES(text) text, sizeof(text) - 1
#define TEN_ZEROS   "\0\0\0\0\0\0\0\0\0\0"

/* The start of a zip whose first entry has a name of n characters. */
#define ZIP(n, name) "PK\3\4\x14\0\0\0\0\0" TEN_ZEROS "\0\0\0\0\0\0" n "\0\0\0" name

static const struct {
    file_kind_t kind;
    const char *bytes;
    size_t n;
    const char *says; /* part of the explanation */
} rows[] = {
    {FILE_EMPTY, BYTES(""), "empty"},
    {FILE_ZEROS, BYTES(TEN_ZEROS), "10 zero bytes"},
    {FILE_UNKNOWN, BYTES("\0\0\0"), "begins with 00 00 00; ADVICE"},
    {FILE_UNKNOWN, BYTES("\1\2\3\4\5\6\7\x08\x09"), "begins with 01 02 03 04 05 06 07 08; ADVICE"},
    {FILE_UNKNOWN, BYTES("hello"), "begins with 'hello'; ADVICE"},
    {FILE_UNKNOWN, BYTES("id,label\n1,cat\n"), "begins with 'id,label'; ADVICE"},
    {FILE_UNKNOWN, BYTES("x"), "begins with 'x'; ADVICE"},
    {FILE_UNKNOWN, BYTES("abcdefghijklmnopqrstuvwxyz"), "'abcdefghijklmnopqrstuvwx'; ADVICE"},
    {FILE_UNKNOWN, BYTES("\x1b[31mred"), "begins with 1b 5b 33"},
    {FILE_UNKNOWN, BYTES("caf\xC3\xA9 \xE2\x80\xAE rest"), "begins with 'caf\xC3\xA9 '; ADVICE"},
    {FILE_UNKNOWN, BYTES("../images/0.jpg"), "begins with '../images/0.jpg'"},
    {FILE_UNKNOWN, BYTES("BMW is not a bitmap"), "'BMW is"},
    {FILE_UNKNOWN, BYTES("[section]\nkey = 1"), "'[section]'"},
    {FILE_WEB_PAGE, BYTES("<!DOCTYPE html><html><title>404 Not Found</title></html>\n"), "'404 Not Found'"},
    {FILE_WEB_PAGE, BYTES("\xEF\xBB\xBF\r\n  <HTML>"), "web page (HTML) in place of the file; download"},
    {FILE_WEB_PAGE, BYTES("<!-- saved --> \n<!doctype HTML>"), "web page"},
    {FILE_WEB_PAGE, BYTES("<!-- a comment that has no end"), "web page"},
    {FILE_WEB_PAGE, BYTES("<?xml version=\"1.0\"?>\n<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML\">"),
     "web page"},
    {FILE_WEB_PAGE, BYTES("<head><title>\n a\x1b[0m</title>"), "titled 'a'"},
    {FILE_SERVER_ERROR, BYTES("<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>"),
     "AccessDenied"},
    {FILE_SERVER_ERROR, BYTES("HTTP/1.1 403 Forbidden\r\nServer: x"), "403 Forbidden"},
    {FILE_XML, BYTES("<annotation><folder>VOC2007</folder>"), "XML text; ADVICE"},
    {FILE_XML, BYTES("<?xml version=\"1.0\"?><annotation>"), "XML"},
    {FILE_SVG, BYTES("<?xml version=\"1.0\"?><!-- x --><svg xmlns=\"http\">"), "SVG"},
    {FILE_JSON, BYTES("{\"message\": \"Not Found\"}"), "JSON text, '{\"message\": \"Not Found\"}'; ADVICE"},
    {FILE_JSON, BYTES("[ 1, 2]"), "JSON"},
    {FILE_LFS_POINTER, BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a"),
     "; run git lfs pull"},
    {FILE_ANNEX_POINTER, BYTES("/annex/objects/SHA256E-s1--2.jpg\n"), "git annex get"},
    {FILE_ANNEX_POINTER, BYTES("../.git/annex/objects/4K/x/MD5E-s1--2.jpg"), "git annex get"},
    {FILE_DVC_POINTER, BYTES("outs:\n- md5: a304afb96060aad90176268345e10355\n"), "dvc pull"},
    {FILE_JPEG, BYTES("\xFF\xD8\xFF\xE0"), "JPEG"},
    {FILE_PNG, BYTES("\x89PNG\r\n\x1A\n"), "PNG"},
    {FILE_WEBP, BYTES("RIFF\x24\0\0\0WEBPVP8 "), "WebP image; ADVICE"},
    {FILE_GIF, BYTES("GIF89a\1\0\1\0"), "GIF"},
    {FILE_BMP, BYTES("BM\x46\0\0\0\0\0\0\0\x36\0"), "BMP"},
    {FILE_TIFF, BYTES("II*\0\x08\0\0\0"), "TIFF"},
    {FILE_TIFF, BYTES("MM\0*\0\0\0\x08"), "TIFF"},
    {FILE_HEIC,
     BYTES("\0\0\0\x18"
           "ftypheic\0\0\0\0mif1heic"),
     "HEIC"},
    {FILE_HEIC,
     BYTES("\0\0\0\x18"
           "ftypmif1\0\0\0\0mif1heic"),
     "HEIC"},
    {FILE_AVIF,
     BYTES("\0\0\0\x1C"
           "ftypmif1\0\0\0\0mif1avifmiaf"),
     "AVIF"},
    {FILE_VIDEO,
     BYTES("\0\0\0\x18"
           "ftypisom\0\0\2\0isomiso2"),
     "video"},
    {FILE_VIDEO, BYTES("RIFF\x24\0\0\0AVI LIST"), "video"},
    {FILE_VIDEO, BYTES("\x1A\x45\xDF\xA3\x9F\x42\x86\x81"), "video"},
    {FILE_JPEG_2000, BYTES("\0\0\0\x0CjP  \r\n\x87\n"), "JPEG 2000"},
    {FILE_JPEG_XL, BYTES("\xFF\x0A\xFA\x1F"), "JPEG XL"},
    {FILE_JPEG_XL, BYTES("\0\0\0\x0CJXL \r\n\x87\n"), "JPEG XL"},
    {FILE_PHOTOSHOP, BYTES("8BPS\0\1"), "Photoshop"},
    {FILE_ICON, BYTES("\0\0\1\0\1\0\x10\x10\0\0\1\0"), "ICO"},
    {FILE_NETPBM, BYTES("P6\n4 4\n255\n"), "Netpbm"},
    {FILE_QOI, BYTES("qoif\0\0\0\1"), "QOI"},
    {FILE_ZIP, BYTES(ZIP("\5", "a.txt")), "zip archive; unpack it"},
    {FILE_ZIP, BYTES("PK\3\4"), "zip"},
    {FILE_ZIP, BYTES(ZIP("\xFF", "a")), "zip"},
    {FILE_NPZ, BYTES(ZIP("\x10", "conv1.weight.npy")), ".npz"},
    {FILE_PYTORCH, BYTES(ZIP("\x10", "archive/data.pkl")), "PyTorch file (torch.save); ADVICE"},
    {FILE_TORCHSCRIPT, BYTES(ZIP("\x0A", "net/data/0")), "TorchScript"},
    {FILE_PYTORCH, BYTES("\x80\2\x8A\nl\xFC\x9C\x46\xF9 j\xA8P\x19.\x80\2"), "PyTorch"},
    {FILE_PICKLE, BYTES("\x80\4\x95\x10\0\0\0\0"), "pickle"},
    {FILE_NPY, BYTES("\x93NUMPY\1\0v\0"), ".npy"},
    {FILE_SAFETENSORS, BYTES("\x40\0\0\0\0\0\0\0{\"a\":{"), "safetensors"},
    {FILE_SAFETENSORS, BYTES("\x80\2\0\0\0\0\0\0{\"a\":{"), "safetensors"},
    {FILE_SAFETENSORS, BYTES("\x1F\x8B\0\0\0\0\0\0{\"a\":{"), "safetensors"},
    {FILE_HDF5, BYTES("\x89HDF\r\n\x1A\n\0"), "HDF5"},
    {FILE_GGUF, BYTES("GGUF\3\0\0\0"), "GGUF"},
    {FILE_ONNX,
     BYTES("\x08\7\x12\7"
           "pytorch\x1A\5"),
     "ONNX"},
    {FILE_UNKNOWN, BYTES("\x08\7\x12\7\1\2\3"), "begins with 08 07"},
    {FILE_TFLITE, BYTES("\x1C\0\0\0TFL3\x14\0"), "TensorFlow Lite"},
    {FILE_IDX, BYTES("\0\0\x08\3\0\0\xEA\x60\0\0\0\x1C"), "IDX"},
    {FILE_TFRECORD, BYTES("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22\n"), "TFRecord"},
    {FILE_UNKNOWN, BYTES("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\0\n"), "begins with 18 00"},
    {FILE_MATLAB, BYTES("MATLAB 5.0 MAT-file"), "MATLAB"},
    {FILE_DPTRAIN, BYTES("dptrain checkpoint 3\n"), "dptrain"},
    {FILE_GZIP, BYTES("\x1F\x8B\x08\0"), "gzip; unpack it"},
    {FILE_BZIP2, BYTES("BZh91AY&SY"), "bzip2"},
    {FILE_XZ,
     BYTES("\xFD"
           "7zXZ\0\0"),
     "xz; unpack it"},
    {FILE_ZSTD, BYTES("\x28\xB5\x2F\xFD\4"), "zstd"},
    {FILE_7Z, BYTES("7z\xBC\xAF\x27\x1C\0"), "7z"},
    {FILE_RAR, BYTES("Rar!\x1A\7\1\0"), "RAR"},
    {FILE_PDF, BYTES("%PDF-1.7\n"), "PDF"},
    {FILE_APPLE_DOUBLE, BYTES("\0\5\x16\7\0\2\0\0Mac OS X"), "macOS"},
    {FILE_SCRIPT, BYTES("#!/bin/sh\n"), "script"},
    {FILE_PROGRAM,
     BYTES("\x7F"
           "ELF\2\1\1\0"),
     "program"},
    {FILE_UTF16, BYTES("\xFF\xFE<\0h\0t\0"), "UTF-16"},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static void check_rows(void)
{
    for (int i = 0; i < N_ROWS; i++) {
        file_kind_t kind = file_kind(rows[i].bytes, rows[i].n);
        file_words_t words = file_kind_explain(rows[i].bytes, rows[i].n, "ADVICE");
        OK(kind == rows[i].kind && strncmp(words.text, "it ", 3) == 0 && strstr(words.text, rows[i].says),
           "%d: %s", rows[i].kind, words.text);
    }
}

/* Kinds that are recognised far from the start, and any cut of every row: nothing beyond it is read. */
static void check_lengths(void)
{
    char bytes[600] = "name";
    memcpy(bytes + 257, "ustar", 6);
    OK(file_kind(bytes, sizeof bytes) == FILE_TAR, "a tar archive");
    OK(file_kind(bytes, 260) == FILE_UNKNOWN, "of which the signature is missing");
    memcpy(bytes + 128, "DICM", 4);
    OK(file_kind(bytes, sizeof bytes) == FILE_DICOM, "DICOM");
    memset(bytes, 0, sizeof bytes);
    bytes[sizeof bytes - 1] = 'x';
    OK(file_kind(bytes, sizeof bytes) == FILE_ZEROS, "zeros as far as is looked");
    int n_good = 0;
    for (int i = 0; i < N_ROWS; i++) {
        for (size_t n = 0; n <= rows[i].n; n++) {
            char *cut = malloc(n ? n : 1); /* whose end a sanitizer watches */
            if (!cut) continue;
            memcpy(cut, rows[i].bytes, n);
            n_good += strlen(file_kind_explain(cut, n, NULL).text) > 3;
            free(cut);
        }
        n_good -= (int)rows[i].n + 1;
    }
    OK(n_good == 0, "every cut of every row");
}

static void check_groups(void)
{
    OK(file_kind_is_image(FILE_JPEG) && file_kind_is_image(FILE_QOI) && !file_kind_is_image(FILE_ZIP) &&
           !file_kind_is_image(FILE_DVC_POINTER),
       "images");
}

static void check_peek(void)
{
    unsigned char first[FILE_KIND_BYTES];
    char folder[] = "/tmp/dptrain-kind-XXXXXX", path[64];
    OK(mkdtemp(folder) != NULL, "a folder");
    snprintf(path, sizeof path, "%s/file", folder);
    OK(file_kind_peek(path, first) == 0, "no file");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    bool written = write(fd, "GIF89a", 6) == 6;
    close(fd);
    OK(written && file_kind_peek(path, first) == 6 && file_kind(first, 6) == FILE_GIF, "a short file");
    unlink(path);
    OK(mkfifo(path, 0600) == 0 && file_kind_peek(path, first) == 0, "a FIFO");
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    tap_plan(N_ROWS + 5 + 2 + 3);
    check_rows();
    check_lengths();
    check_groups();
    check_peek();
    return tap_done();
}
