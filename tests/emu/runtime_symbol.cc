/* SPDX-License-Identifier: MIT */
/* Names of kernels, from the program's full symbol table: static functions and templates are not in the dynamic one. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu.h"

namespace emu
{
namespace
{

struct symbol_t {
    uintptr_t start, size;
    const char *name;
};

int first_object(struct dl_phdr_info *info, size_t, void *base)
{
    *static_cast<uintptr_t *>(base) = info->dlpi_addr;
    return 1; /* the first entry is the program */
}

std::vector<symbol_t> read_symbols()
{
    std::vector<symbol_t> found;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) return found;
    void *map = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0); /* stays mapped: it holds the names */
    close(fd);
    if (map == MAP_FAILED) return found;
    const char *file = static_cast<const char *>(map);
    const ElfW(Ehdr) *header = reinterpret_cast<const ElfW(Ehdr) *>(file);
    const ElfW(Shdr) *sections = reinterpret_cast<const ElfW(Shdr) *>(file + header->e_shoff);
    uintptr_t base = 0;
    dl_iterate_phdr(first_object, &base);
    for (int i = 0; header->e_shoff && i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        const ElfW(Sym) *symbols = reinterpret_cast<const ElfW(Sym) *>(file + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC && symbols[k].st_value)
                found.push_back({base + symbols[k].st_value, symbols[k].st_size, names + symbols[k].st_name});
    }
    return found;
}

} // namespace

std::string function_name(const void *function)
{
    static const std::vector<symbol_t> symbols = read_symbols();
    uintptr_t address = reinterpret_cast<uintptr_t>(function);
    for (const symbol_t &s : symbols) {
        if (address < s.start || address >= s.start + std::max<uintptr_t>(s.size, 1)) continue;
        int status = 0;
        char *plain = abi::__cxa_demangle(s.name, nullptr, nullptr, &status);
        std::string text = plain ? plain : s.name;
        std::free(plain);
        return text;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%p", function);
    return text;
}

} // namespace emu
