/* SPDX-License-Identifier: MIT */
/* Tells kinds of files apart by their first bytes: fixed signatures, then formats that need a closer look, then text.
 * Which kinds a caller reads, and what it says of the others, is left to it. */
#include "base/file_kind.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/utf8.h"

enum { SHOWN_TEXT = 24, SHOWN_HEX = 8, FEW_ZEROS = 8 };

/* `advice` NULL: the caller's. */
static const struct {
    const char *name, *advice;
} kinds[FILE_N_KINDS] = {
    [FILE_EMPTY] = {"empty", "download or copy it again"},
    [FILE_ZEROS] = {"zeros", "download or copy it again"},
    [FILE_WEB_PAGE] = {"a web page (HTML)", "download it again"},
    [FILE_SERVER_ERROR] = {"a server's error message", "download it again"},
    [FILE_LFS_POINTER] = {"a Git LFS pointer", "run git lfs pull in its repository"},
    [FILE_ANNEX_POINTER] = {"a git-annex pointer", "run git annex get in its repository"},
    [FILE_DVC_POINTER] = {"a DVC pointer", "run dvc pull in its repository"},
    [FILE_JPEG] = {"a JPEG image", NULL},
    [FILE_PNG] = {"a PNG image", NULL},
    [FILE_WEBP] = {"a WebP image", NULL},
    [FILE_GIF] = {"a GIF image", NULL},
    [FILE_BMP] = {"a BMP image", NULL},
    [FILE_TIFF] = {"a TIFF image (or a camera's raw file)", NULL},
    [FILE_HEIC] = {"a HEIC image", NULL},
    [FILE_AVIF] = {"an AVIF image", NULL},
    [FILE_JPEG_2000] = {"a JPEG 2000 image", NULL},
    [FILE_JPEG_XL] = {"a JPEG XL image", NULL},
    [FILE_PHOTOSHOP] = {"a Photoshop image", NULL},
    [FILE_SVG] = {"an SVG drawing", NULL},
    [FILE_ICON] = {"an icon (ICO)", NULL},
    [FILE_NETPBM] = {"a Netpbm image (PBM, PGM, PPM)", NULL},
    [FILE_OPENEXR] = {"an OpenEXR image", NULL},
    [FILE_RADIANCE] = {"a Radiance HDR image", NULL},
    [FILE_DICOM] = {"a DICOM image", NULL},
    [FILE_QOI] = {"a QOI image", NULL},
    [FILE_ZIP] = {"a zip archive", "unpack it"},
    [FILE_GZIP] = {"compressed by gzip", "unpack it"},
    [FILE_BZIP2] = {"compressed by bzip2", "unpack it"},
    [FILE_XZ] = {"compressed by xz", "unpack it"},
    [FILE_ZSTD] = {"compressed by zstd", "unpack it"},
    [FILE_LZ4] = {"compressed by lz4", "unpack it"},
    [FILE_COMPRESS] = {"compressed by compress (.Z)", "unpack it"},
    [FILE_TAR] = {"a tar archive", "unpack it"},
    [FILE_7Z] = {"a 7z archive", "unpack it"},
    [FILE_RAR] = {"a RAR archive", "unpack it"},
    [FILE_NPZ] = {"an .npz archive of arrays", NULL},
    [FILE_NPY] = {"an .npy array", NULL},
    [FILE_PYTORCH] = {"a PyTorch file (torch.save)", NULL},
    [FILE_TORCHSCRIPT] = {"a PyTorch program (TorchScript)", NULL},
    [FILE_PICKLE] = {"a Python pickle", NULL},
    [FILE_SAFETENSORS] = {"a safetensors file", NULL},
    [FILE_HDF5] = {"an HDF5 file", NULL},
    [FILE_GGUF] = {"a GGUF file", NULL},
    [FILE_ONNX] = {"an ONNX model", NULL},
    [FILE_TFLITE] = {"a TensorFlow Lite model", NULL},
    [FILE_IDX] = {"an IDX file", NULL},
    [FILE_TFRECORD] = {"a TFRecord file", NULL},
    [FILE_MXNET_RECORD] = {"an MXNet RecordIO file", NULL},
    [FILE_PARQUET] = {"a Parquet file", NULL},
    [FILE_MATLAB] = {"a MATLAB file", NULL},
    [FILE_SQLITE] = {"an SQLite database", NULL},
    [FILE_DPTRAIN] = {"a file of dptrain's own", NULL},
    [FILE_JSON] = {"JSON text", NULL},
    [FILE_XML] = {"XML text", NULL},
    [FILE_PDF] = {"a PDF document", NULL},
    [FILE_POSTSCRIPT] = {"a PostScript document", NULL},
    [FILE_VIDEO] = {"a video", NULL},
    [FILE_APPLE_DOUBLE] = {"what macOS stores beside a file (._NAME)", "remove it"},
    [FILE_SCRIPT] = {"a script", NULL},
    [FILE_PROGRAM] = {"a program", NULL},
    [FILE_UTF16] = {"text in UTF-16", NULL},
};

/* The first that matches counts. */
static const struct {
    file_kind_t kind;
    int at, n;
    const char *bytes;
} signatures[] = {
    {FILE_JPEG, 0, 3, "\xFF\xD8\xFF"},
    {FILE_PNG, 0, 4, "\x89PNG"},
    {FILE_GIF, 0, 4, "GIF8"},
    {FILE_TIFF, 0, 4, "II*\0"},
    {FILE_TIFF, 0, 4, "MM\0*"},
    {FILE_TIFF, 0, 4, "II+\0"},
    {FILE_TIFF, 0, 4, "MM\0+"},
    {FILE_JPEG_2000, 0, 12, "\0\0\0\x0CjP  \r\n\x87\n"},
    {FILE_JPEG_2000, 0, 4, "\xFF\x4F\xFF\x51"},
    {FILE_JPEG_XL, 0, 12, "\0\0\0\x0CJXL \r\n\x87\n"},
    {FILE_JPEG_XL, 0, 2, "\xFF\x0A"},
    {FILE_PHOTOSHOP, 0, 5, "8BPS\0"},
    {FILE_OPENEXR, 0, 4, "\x76\x2F\x31\x01"},
    {FILE_RADIANCE, 0, 10, "#?RADIANCE"},
    {FILE_RADIANCE, 0, 6, "#?RGBE"},
    {FILE_DICOM, 128, 4, "DICM"},
    {FILE_QOI, 0, 4, "qoif"},
    {FILE_ZIP, 0, 4, "PK\3\4"},
    {FILE_ZIP, 0, 4, "PK\5\6"},
    {FILE_GZIP, 0, 2, "\x1F\x8B"},
    {FILE_XZ, 0, 6,
     "\xFD"
     "7zXZ\0"},
    {FILE_ZSTD, 0, 4, "\x28\xB5\x2F\xFD"},
    {FILE_LZ4, 0, 4, "\x04\x22\x4D\x18"},
    {FILE_COMPRESS, 0, 2, "\x1F\x9D"},
    {FILE_TAR, 257, 5, "ustar"},
    {FILE_7Z, 0, 6, "7z\xBC\xAF\x27\x1C"},
    {FILE_RAR, 0, 6, "Rar!\x1A\7"},
    {FILE_NPY, 0, 6, "\x93NUMPY"},
    {FILE_PYTORCH, 0, 14, "\x80\2\x8A\nl\xFC\x9C\x46\xF9 j\xA8P\x19"}, /* its magic number, pickled */
    {FILE_PICKLE, 0, 2, "\x80\2"},
    {FILE_PICKLE, 0, 2, "\x80\3"},
    {FILE_PICKLE, 0, 2, "\x80\4"},
    {FILE_PICKLE, 0, 2, "\x80\5"},
    {FILE_HDF5, 0, 8, "\x89HDF\r\n\x1A\n"},
    {FILE_GGUF, 0, 4, "GGUF"},
    {FILE_TFLITE, 4, 4, "TFL3"},
    {FILE_MXNET_RECORD, 0, 4, "\x0A\x23\xD7\xCE"},
    {FILE_PARQUET, 0, 4, "PAR1"},
    {FILE_MATLAB, 0, 10, "MATLAB 5.0"},
    {FILE_SQLITE, 0, 16, "SQLite format 3"},
    {FILE_DPTRAIN, 0, 19, "dptrain checkpoint "},
    {FILE_DPTRAIN, 0, 14, "dptrain shard "},
    {FILE_DPTRAIN, 0, 14, "dptrain index "},
    {FILE_PDF, 0, 5, "%PDF-"},
    {FILE_POSTSCRIPT, 0, 4, "%!PS"},
    {FILE_VIDEO, 0, 4, "\x1A\x45\xDF\xA3"}, /* Matroska */
    {FILE_APPLE_DOUBLE, 0, 4, "\0\5\x16\7"},
    {FILE_SCRIPT, 0, 2, "#!"},
    {FILE_PROGRAM, 0, 4,
     "\x7F"
     "ELF"},
    {FILE_LFS_POINTER, 0, 23, "version https://git-lfs"},
    {FILE_LFS_POINTER, 0, 22, "version https://hawser"},
    {FILE_ANNEX_POINTER, 0, 15, "/annex/objects/"},
    {FILE_DVC_POINTER, 0, 12, "outs:\n- md5:"},
    {FILE_SERVER_ERROR, 0, 7, "HTTP/1."},
    {FILE_SERVER_ERROR, 0, 6, "HTTP/2"},
    {FILE_UTF16, 0, 2, "\xFF\xFE"},
    {FILE_UTF16, 0, 2, "\xFE\xFF"},
};

/* What is looked at: NUL-terminated, for searches in text. */
typedef struct look {
    char bytes[FILE_KIND_BYTES + 1];
    size_t n;
} look_t;

static look_t begin_look(const void *first, size_t n_bytes)
{
    look_t l = {.n = n_bytes < FILE_KIND_BYTES ? n_bytes : FILE_KIND_BYTES};
    if (l.n > 0) memcpy(l.bytes, first, l.n);
    return l;
}

static uint32_t little_32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* A zip, by the name of its first entry. */
static file_kind_t kind_of_zip(const look_t *l)
{
    enum { NAME_LENGTH = 26, NAME = 30 };
    if (l->n <= NAME || memcmp(l->bytes, "PK\3\4", 4) != 0) return FILE_ZIP;
    size_t n = little_32(l->bytes + NAME_LENGTH) & 0xFFFF;
    if (n > l->n - NAME) return FILE_ZIP;
    char name[FILE_KIND_BYTES];
    memcpy(name, l->bytes + NAME, n);
    name[n] = '\0';
    if (fs_has_suffix(name, ".npy")) return FILE_NPZ;
    static const char *const of_torch[] = {"/data.pkl", "/byteorder", "/version", "/.format_version"};
    for (size_t i = 0; i < sizeof of_torch / sizeof *of_torch; i++)
        if (fs_has_suffix(name, of_torch[i])) return FILE_PYTORCH;
    return fs_has_suffix(name, "/data/0") ? FILE_TORCHSCRIPT : FILE_ZIP;
}

/* ISO's container, by its brands: images of HEIF, or a video. */
static file_kind_t kind_of_brands(const look_t *l)
{
    if (l->n < 12 || memcmp(l->bytes + 4, "ftyp", 4) != 0) return FILE_UNKNOWN;
    size_t end = (size_t)(unsigned char)l->bytes[2] << 8 | (unsigned char)l->bytes[3];
    bool heif = false;
    for (size_t at = 8; at + 4 <= l->n && at < end; at += 4) {
        const char *brand = l->bytes + at;
        if (memcmp(brand, "avif", 4) == 0 || memcmp(brand, "avis", 4) == 0) return FILE_AVIF;
        heif = heif || memcmp(brand, "hei", 3) == 0 || memcmp(brand, "hev", 3) == 0 ||
               memcmp(brand, "mif1", 4) == 0 || memcmp(brand, "msf1", 4) == 0;
    }
    return heif ? FILE_HEIC : FILE_VIDEO;
}

/* A length in 8 bytes and its masked CRC-32C. */
static bool is_tfrecord(const look_t *l)
{
    if (l->n < 12) return false;
    uint32_t crc = 0xFFFFFFFF;
    for (int i = 0; i < 8; i++) {
        crc ^= (unsigned char)l->bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
    }
    crc = ~crc;
    return little_32(l->bytes + 8) == (crc >> 15 | crc << 17) + 0xA282EAD8;
}

/* Binary formats whose signature is short, or is not at the start. */
static file_kind_t kind_of_header(const look_t *l)
{
    const unsigned char *b = (const unsigned char *)l->bytes;
    file_kind_t kind = kind_of_brands(l);
    if (kind != FILE_UNKNOWN) return kind;
    if (memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0) return FILE_WEBP;
    if (memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "AVI ", 4) == 0) return FILE_VIDEO;
    if (l->n >= 10 && memcmp(b, "BM", 2) == 0 && little_32(l->bytes + 6) == 0) return FILE_BMP;
    if (memcmp(b, "BZh", 3) == 0 && b[3] >= '1' && b[3] <= '9') return FILE_BZIP2;
    /* Followed by the number of images, width, height and colours of the first, and a zero. */
    if (l->n >= 10 && memcmp(b, "\0\0\1\0", 4) == 0 && (b[4] || b[5]) && b[9] == 0) return FILE_ICON;
    if (l->n >= 8 && b[0] == 0 && b[1] == 0 && b[2] >= 8 && b[2] <= 14 && b[2] != 10 && b[3] >= 1 &&
        b[3] <= 8)
        return FILE_IDX;
    /* Protocol buffers: the format's version, and the name of the program that wrote it. */
    if (l->n >= 6 && b[0] == 0x08 && b[1] >= 1 && b[1] <= 32 && b[2] == 0x12 && b[3] > 0 && isalpha(b[4]))
        return FILE_ONNX;
    if (l->n >= 4 && b[0] == 'P' && b[1] >= '1' && b[1] <= '7' && isspace(b[2])) return FILE_NETPBM;
    return is_tfrecord(l) ? FILE_TFRECORD : FILE_UNKNOWN;
}

static bool begins(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " \t\r\n\f\v");
}

/* Text with what may precede its content: a byte order mark, spaces, XML's prolog, comments. */
static file_kind_t kind_of_text(const look_t *l)
{
    static const char *const pages[] = {"<!doctype html", "<html",   "<head",  "<body", "<title",
                                        "<meta",          "<script", "<style", "<div",  "<center"};
    const char *at = l->bytes;
    bool markup = false;
    if (begins(at, "\xEF\xBB\xBF")) at += 3;
    for (at = skip_spaces(at); begins(at, "<!--") || begins(at, "<?xml"); at = skip_spaces(at)) {
        const char *end = begins(at, "<?") ? "?>" : "-->";
        const char *found = strstr(at, end);
        markup = markup || *end == '?';
        if (!found) return markup ? FILE_XML : FILE_WEB_PAGE;
        at = found + strlen(end);
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (begins(at, pages[i])) return FILE_WEB_PAGE;
    if (begins(at, "<svg") || begins(at, "<!doctype svg")) return FILE_SVG;
    if (begins(at, "<error>") || begins(at, "<errorresponse")) return FILE_SERVER_ERROR;
    if (markup || begins(at, "<!doctype") || (*at == '<' && isalpha((unsigned char)at[1]))) return FILE_XML;
    if (strstr(at, "/.git/annex/objects/") || strstr(at, "\n/annex/objects/")) return FILE_ANNEX_POINTER;
    if (*at != '{' && *at != '[') return FILE_UNKNOWN;
    const char *value = skip_spaces(at + 1);
    if (*at == '{') return *value == '"' || *value == '}' ? FILE_JSON : FILE_UNKNOWN;
    return *value && strchr("{[\"]-0123456789tfn", *value) ? FILE_JSON : FILE_UNKNOWN;
}

/* JSON after its length in 8 bytes, which may look like another format's signature. */
static bool is_safetensors(const look_t *l)
{
    return l->n >= 10 && little_32(l->bytes + 4) == 0 && l->bytes[8] == '{' &&
           (l->bytes[9] == '"' || l->bytes[9] == '}');
}

static file_kind_t look_kind(const look_t *l)
{
    if (l->n == 0) return FILE_EMPTY;
    if (is_safetensors(l)) return FILE_SAFETENSORS;
    size_t n_zeros = 0;
    while (n_zeros < l->n && l->bytes[n_zeros] == 0) n_zeros++;
    if (n_zeros == l->n) return l->n >= FEW_ZEROS ? FILE_ZEROS : FILE_UNKNOWN;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        size_t at = (size_t)signatures[i].at, n = (size_t)signatures[i].n;
        file_kind_t kind = signatures[i].kind;
        if (at + n > l->n || memcmp(l->bytes + at, signatures[i].bytes, n) != 0) continue;
        return kind == FILE_ZIP ? kind_of_zip(l) : kind;
    }
    file_kind_t kind = kind_of_header(l);
    return kind != FILE_UNKNOWN ? kind : kind_of_text(l);
}

file_kind_t file_kind(const void *first, size_t n_bytes)
{
    const look_t l = begin_look(first, n_bytes);
    return look_kind(&l);
}

bool file_kind_is_image(file_kind_t kind)
{
    return kind >= FILE_JPEG && kind <= FILE_LAST_IMAGE;
}

/* Printable characters from the start, at most max bytes; returns their number. */
static size_t take_printable(const char *from, size_t max, char *out)
{
    size_t n = 0;
    for (size_t length; n < max && from[n]; n += length) {
        length = utf8_length(from + n);
        if (length == 0 || n + length > max || utf8_is_control(from + n, length)) break;
    }
    memcpy(out, from, n);
    out[n] = '\0';
    return n;
}

/* The text of an element, such as a page's title, in quotes after `before`; else nothing. */
static void append_element(const look_t *l, const char *element, const char *before, file_words_t *out)
{
    enum { SHOWN = 40 };
    char text[SHOWN + 1];
    const char *at = l->bytes;
    while (*at && !begins(at, element)) at++;
    if (!*at) return;
    at = skip_spaces(at + strlen(element));
    size_t n = take_printable(at, strcspn(at, "<") < SHOWN ? strcspn(at, "<") : SHOWN, text);
    size_t used = strlen(out->text);
    if (n > 0) snprintf(out->text + used, sizeof out->text - used, "%s'%s'", before, text);
}

/* "it begins with …": text if enough of it can be printed. */
static void append_begin(const look_t *l, file_words_t *out)
{
    enum { ENOUGH = 4 };
    char text[SHOWN_TEXT + 1];
    size_t n = take_printable(l->bytes, SHOWN_TEXT, text), used = strlen(out->text);
    if (n >= ENOUGH || (n > 0 && n == l->n)) {
        snprintf(out->text + used, sizeof out->text - used, "begins with '%s'", text);
        return;
    }
    snprintf(out->text + used, sizeof out->text - used, "begins with");
    for (size_t i = 0; i < l->n && i < SHOWN_HEX; i++) {
        used = strlen(out->text);
        snprintf(out->text + used, sizeof out->text - used, " %02x", (unsigned char)l->bytes[i]);
    }
}

file_words_t file_kind_explain(const void *first, size_t n_bytes, const char *advice)
{
    const look_t l = begin_look(first, n_bytes);
    file_kind_t kind = look_kind(&l);
    file_words_t out = {"it "};
    if (kind == FILE_UNKNOWN)
        append_begin(&l, &out);
    else if (kind == FILE_ZEROS)
        snprintf(out.text, sizeof out.text, "it begins with %zu zero bytes, as an unfinished download does",
                 l.n);
    else
        snprintf(out.text, sizeof out.text, "it is %s", kinds[kind].name);
    if (kind == FILE_WEB_PAGE) append_element(&l, "<title>", " titled ", &out);
    if (kind == FILE_SERVER_ERROR) append_element(&l, l.bytes[0] == 'H' ? "HTTP/" : "<code>", " ", &out);
    if (kind == FILE_JSON) append_element(&l, "", ", ", &out);
    if (kinds[kind].advice) advice = kinds[kind].advice;
    size_t used = strlen(out.text);
    if (kind == FILE_WEB_PAGE || kind == FILE_SERVER_ERROR)
        snprintf(out.text + used, sizeof out.text - used, " in place of the file; %s", advice);
    else if (advice)
        snprintf(out.text + used, sizeof out.text - used, "; %s", advice);
    return out;
}

size_t file_kind_peek(const char *path, unsigned char first[FILE_KIND_BYTES])
{
    struct stat info;
    size_t n_read = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return 0;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        fs_read_all(fd, FS_HERE, first, FILE_KIND_BYTES, &n_read) != 0)
        n_read = 0;
    close(fd);
    return n_read;
}
