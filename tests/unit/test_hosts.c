/* SPDX-License-Identifier: MIT */
/* RUN np=0 san=slow
 *
 * Host descriptions: the three forms, what is refused and where, filters, and what is written of them. */
#include "tests/tap.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cluster/hosts/hosts.h"

typedef err_t reader_t(const char *text, const char *name, hosts_t *out);

static err_t read_list(const char *text, const char *name, hosts_t *out)
{
    (void)name;
    return hosts_read_list(text, out);
}

static char written[1 << 16];

/* As the shell scripts see it. */
static const char *tsv(const hosts_t *hosts)
{
    FILE *out = fmemopen(written, sizeof written, "w");
    hosts_write_tsv(hosts, out);
    fclose(out);
    return written;
}

static void check_reads(reader_t *reader, const char *text, const char *expected, const char *what)
{
    hosts_t hosts;
    err_t err = reader(text, "file", &hosts);
    bool same = err == ERR_OK && strcmp(tsv(&hosts), expected) == 0;
    OK(same, "%s", what);
    if (!same) printf("# %s\n", err == ERR_OK ? written : err_message());
    hosts_free(&hosts);
}

typedef struct refusal {
    const char *text, *message; /* a part of it */
} refusal_t;

static void check_refusals(reader_t *reader, const refusal_t *cases, int n)
{
    for (int i = 0; i < n; i++) {
        hosts_t hosts;
        err_t err = reader(cases[i].text, "file", &hosts);
        bool refused = err == ERR_DATA && strstr(err_message(), cases[i].message);
        OK(refused && !hosts.at, "refused: %s", cases[i].message);
        if (!refused) printf("# code %d: %s\n", err, err == ERR_OK ? "" : err_message());
        hosts_free(&hosts);
    }
}

#define N_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const refusal_t bad_hostfiles[] = {
    {"", "file lists no hosts"},
    {"# nothing\n\n  \t\r\n", "file lists no hosts"},
    {"ok\na slot=4\n", "file:2: unknown key 'slot'; did you mean slots=N?"},
    {"a 4\n", "file:1: unexpected '4': expected NAME slots=N"},
    {"a slots\n", "file:1: 'slots' requires a number"},
    {"a slots=\n", "file:1: invalid slots=: expected a whole number"},
    {"a slots=0\n", "file:1: invalid slots=0: expected a whole number from 1"},
    {"a slots=-1\n", "slots=-1"},
    {"a slots=4x\n", "slots=4x"},
    {"a slots=1048577\n", "slots=1048577"},
    {"a slots=4294967297\n", "slots=4294967297"},
    {"a slots=1 slots=1\n", "file:1: slots= is given twice"},
    {"a max_slots=2 slots=4\n", "file:1: max_slots=2 is less than slots=4"},
    {"slots=4\n", "file:1: missing host name"},
    {"ok\na:0\n", "file:2: invalid 'a:0': expected a number of slots from 1"},
    {"a:4 slots=4\n", "file:1: slots= is given twice"},
    {"a slots=1048576\nb\na slots=1\n", "file:3: a has more than 1048576 slots in total"},
    {"node[1-\n", "invalid 'node[1-': expected numbers in brackets, such as node[1-4]"},
    {"node1-4]\n", "'node1-4]' is not a host name"},
    {"node[]\n", "invalid '': expected numbers"},
    {"node[4-1]\n", "invalid '4-1': expected numbers"},
    {"node[a-b]\n", "invalid 'a-b': expected numbers"},
    {"ok\nnode[0-99999999]\n", "file:2: more than 1048576 lines with hosts"},
    {"node[1-70000]\n", "file:1: more than 65536 hosts"},
    {"[node] slots=2\n", "brackets are for IPv6 addresses, and for numbers after a name"},
    {"-oProxyCommand=x\n", "file:1: "},
    {"-x slots=1\n", "'-x' is not a host name"},
    {"@node slots=1\n", "file:1: user '' is not a valid user name"},
    {"-oProxyCommand=x@node\n", "file:1: "},
    {"-ox@node\n", "user '-ox' is not a valid user name"},
    {"me@\n", "missing host name"},
    {"me@node\nnode\nyou@node\n", "file:3: node has two users: me in line 1, and you"},
    {"$(reboot)\n", "is not a host name"},
    {"a;b\n", "is not a host name"},
    {"a#b\n", "'a#b' is not a host name"},
    {"a..b\n", "is not a host name"},
    {"n\xC3\xB6rd\n", "'n\xC3\xB6rd' is not a host name"},
    {"a\x1B[2J\n", "invalid 'a?[2J': expected numbers in brackets"},
    {"10.0.0.256\n", "'10.0.0.256' is not an IPv4 address"},
    {"10.0.1\n", "is not an IPv4 address"},
    {"7\n", "'7' is not an IPv4 address"},
    {"fe80::1::2\n", "neither a host name nor an IPv6 address"},
    {"fe80::1%\n", "neither a host name nor an IPv6 address"},
    {"localhost slots=2\nb slots=2\n",
     "file:1: localhost is a loopback address, a different machine on each of the 2 hosts"},
    {"b\n127.1.2.3\n", "file:2: 127.1.2.3 is a loopback address"},
    {"b\n::1\n", "file:2: ::1 is a loopback address"},
    {"b\n::ffff:127.0.0.1\n", "file:2: ::ffff:127.0.0.1 is a loopback address"},
};

static void check_hostfiles(void)
{
    check_reads(hosts_read_hostfile, "node1 slots=4\nnode2 slots=8 max_slots=9\n",
                "node1\t4\t-\t-\t-\t-\tyes\t-\t-\t-\nnode2\t8\t-\t-\t-\t-\tno\t-\t-\t-\n",
                "a hostfile; its first host is the chief");
    check_reads(
        hosts_read_hostfile,
        "\xEF\xBB\xBF# all\r\n\r\n  node-1.x\tslots = 4 max-slots= 4 # four\r\n#b\nn_2 slots=2#two\n10.0.0.2",
        "node-1.x\t4\t-\t-\t-\t-\tyes\t-\t-\t-\nn_2\t2\t-\t-\t-\t-\tno\t-\t-\t-\n"
        "10.0.0.2\t-\t-\t-\t-\t-\tno\t-\t-\t-\n",
        "a mark at the begin, CR LF, comments, blanks around =, no slots, no newline at the end");
    check_reads(hosts_read_hostfile, "fe80::1%eth0 slots=2\nfe80::1%eth1 slots=2\n",
                "fe80::1%eth0\t2\t-\t-\t-\t-\tyes\t-\t-\t-\nfe80::1%eth1\t2\t-\t-\t-\t-\tno\t-\t-\t-\n",
                "IPv6 addresses of two zones are two hosts");
    check_reads(hosts_read_hostfile, "localhost slots=2\n", "localhost\t2\t-\t-\t-\t-\tyes\t-\t-\t-\n",
                "localhost alone");
    check_reads(hosts_read_hostfile,
                "me@node1 slots=2\nnode2\nm.e@corp@fe80::1\nyou@n[3-4]:2\nnode1\nme@node2\n",
                "node1\t3\t-\t-\tme\t-\tyes\t-\t-\t-\nnode2\t2\t-\t-\tme\t-\tno\t-\t-\t-\n"
                "fe80::1\t1\t-\t-\tm.e@corp\t-\tno\t-\t-\t-\nn3\t2\t-\t-\tyou\t-\tno\t-\t-\t-\n"
                "n4\t2\t-\t-\tyou\t-\tno\t-\t-\t-\n",
                "USER@HOST, as OpenMPI's hostfiles allow");
    check_refusals(hosts_read_hostfile, bad_hostfiles, N_OF(bad_hostfiles));
}

typedef struct counted {
    reader_t *reader;
    const char *text, *hosts; /* name=slots */
    const char *what;
} counted_t;

/* As OpenMPI 4.1 counts them, by --display-allocation, unless said otherwise. */
static const counted_t counted[] = {
    {hosts_read_hostfile, "aa slots=2\nbb slots=2\ncc slots=2\n", "aa=2 bb=2 cc=2 ", "OpenMPI's example"},
    {hosts_read_hostfile, "aa\nbb max_slots=3\n", "aa=0 bb=3 ",
     "no slots: the host's own number, or max_slots"},
    {hosts_read_hostfile, "a\nb\na\na\n", "a=3 b=1 ", "PBS's $PBS_NODEFILE: a line is a slot, also of b"},
    {hosts_read_hostfile, "a slots=2\nb\nA slots=3\n", "a=5 b=0 ", "lines with slots add up"},
    {hosts_read_hostfile, "a slots=2\na\nb\n", "a=3 b=1 ", "with and without slots"},
    {hosts_read_hostfile, "a slots=2 max_slots=4\na slots=1 max_slots=1\n", "a=3 ", "with limits"},
    {hosts_read_hostfile, "fe80::1\nFE80:0:0::1\n", "fe80::1=2 ", "one address in two spellings"},
    {hosts_read_hostfile, "node1:4\nnode2:2 # two\n[fe80::1]:3\n", "node1=4 node2=2 fe80::1=3 ",
     "MPICH's form"},
    {hosts_read_hostfile, "node[1-3]\n", "node1=0 node2=0 node3=0 ", "Slurm's form"},
    {hosts_read_hostfile, "node[01-02,07] slots=4\nx[9-10]:2\n", "node01=4 node02=4 node07=4 x9=2 x10=2 ",
     "with leading zeros, with slots"},
    {hosts_read_hostfile, "r[1-2]n[1-2]-ib\n", "r1n1-ib=0 r1n2-ib=0 r2n1-ib=0 r2n2-ib=0 ", "two brackets"},
    {read_list, "aa,aa,bb", "aa=2 bb=1 ", "mpirun -H aa,aa,bb"},
    {read_list, "a:1,b:1,A:2", "a=3 b=1 ", "a list adds up"},
    {read_list, "node[1-2,5]:4,[fe80::1]:2,c", "node1=4 node2=4 node5=4 fe80::1=2 c=1 ",
     "a list with ranges"},
};

static void check_counts(void)
{
    for (int i = 0; i < N_OF(counted); i++) {
        hosts_t hosts;
        char kept[256] = "";
        size_t used = 0;
        err_t err = counted[i].reader(counted[i].text, "file", &hosts);
        for (int h = 0; h < hosts.n; h++)
            used += (size_t)snprintf(kept + used, sizeof kept - used, "%s=%d ", hosts.at[h].address,
                                     hosts.at[h].slots);
        bool same = err == ERR_OK && strcmp(kept, counted[i].hosts) == 0;
        OK(same, "%s: %s", counted[i].what, counted[i].hosts);
        if (!same) printf("# %s %s\n", kept, err == ERR_OK ? "" : err_message());
        hosts_free(&hosts);
    }
}

static const refusal_t bad_lists[] = {
    {"", "the list of hosts, entry 1: missing host name"},
    {"a:1,,b:1", "entry 2: missing host name"},
    {"a:1,", "entry 2: missing host name"},
    {"a:0", "entry 1: invalid 'a:0': expected a number of slots from 1"},
    {"a:", "invalid 'a:': expected a number of slots"},
    {"a:1,b:two", "entry 2: invalid 'b:two'"},
    {"fe80::1:4", "put an IPv6 address in brackets: [fe80::1]:4"},
    {"[fe80::1", "missing ]"},
    {"[fe80::1]4", "expected [ADDRESS]:SLOTS"},
    {"[node]:4", "brackets are for IPv6 addresses"},
    {"a:1,127.0.0.1:1", "entry 2: 127.0.0.1 is a loopback address"},
};

static void check_lists(void)
{
    check_reads(read_list, "a:2,b,10.0.0.3:1,[fe80::1]:4,[fe80::2]",
                "a\t2\t-\t-\t-\t-\tyes\t-\t-\t-\nb\t1\t-\t-\t-\t-\tno\t-\t-\t-\n10.0.0.3\t1\t-\t-\t-\t-"
                "\tno\t-\t-\t-\n"
                "fe80::1\t4\t-\t-\t-\t-\tno\t-\t-\t-\nfe80::2\t1\t-\t-\t-\t-\tno\t-\t-\t-\n",
                "a list");
    check_reads(read_list, "me@a:2,b,me@[fe80::1]:4",
                "a\t2\t-\t-\tme\t-\tyes\t-\t-\t-\nb\t1\t-\t-\t-\t-\tno\t-\t-\t-\n"
                "fe80::1\t4\t-\t-\tme\t-\tno\t-\t-\t-\n",
                "a list with users");
    check_refusals(read_list, bad_lists, N_OF(bad_lists));
}

#define GROUP "ssh: {g: {username: u, port: 2200}}\n"

#define ENVS "LD_LIBRARY_PATH=/x:/y\tDEBUG=1\tEMPTY="

static const char good_spec[] =
    "nodes:\n"
    "  - address: node2\n"
    "    gpus: [3, 1]\n"
    "    ssh_config: g\n"
    "    port: 2222\n"
    "  - {address: 10.0.0.1, cpus: [0], gpus: 2, chief: yes, network_bandwidth: 2.5}\n"
    "  - {address: 'fe80::1', cpus: 3, gpus: [], ssh_config: g}\n"
    "  - {address: node4, gpus: 0, chief: false, ssh_config: h}\n"
    "ssh:\n"
    "  g:\n"
    "    key_file: /keys/a b\n"
    "    username: 'ubuntu'\n"
    "    port: 2200\n"
    "    shared_envs: {LD_LIBRARY_PATH: '/x:/y', DEBUG: 1, EMPTY: ''}\n"
    "    env_file: job.env\n"
    "    setup: |\n"
    "      source /opt/activate && ulimit -l unlimited\n"
    "  h: {python_venv: . /v}\n";

static const refusal_t bad_specs[] = {
    {"", "file is empty"},
    {"# nothing\n", "file is empty"},
    {"ssh: {}\n", "file:1: missing nodes:"},
    {"nodes:\n", "missing nodes:"},
    {"nodes: []\n", "file lists no hosts"},
    {"nodes: {address: a}\n", "file:1: nodes: expected a list"},
    {"- address: a\n", "expected a map (key: value)"},
    {"nodes:\n- a\n", "file:2: nodes: expected a map (key: value)"},
    {"node: [{address: a}]\n", "file:1: a resource spec: unknown key 'node'; did you mean 'nodes'?"},
    {"nodes:\n- address: a\n  zone: 4\n",
     "file:3: nodes: unknown key 'zone'; expected one of address, cpus, gpus, chief,"},
    {"nodes:\n- address: a\n  gpu: 4\n", "file:3: nodes: unknown key 'gpu'; did you mean"},
    {"nodes:\n- address: a\n  address: b\n", "file:3: nodes: address is given twice"},
    {"nodes:\n- gpus: 4\n", "file:2: nodes: missing address"},
    {"nodes:\n- address: [a]\n", "file:2: address: expected a single value, not a list"},
    {"nodes:\n- {address: a}\n- {address: b}\n", "file:2: no node is the chief"},
    {"nodes:\n- {address: a, chief: false}\n", "no node is the chief"},
    {GROUP "nodes:\n- {address: a, chief: true}\n- {address: b, chief: true}\n",
     "file:4: b is a second chief; the first is in line 3"},
    {GROUP "nodes:\n- {address: a, chief: true}\n- {address: b}\n",
     "file:4: nodes other than the chief require ssh_config"},
    {GROUP "nodes:\n- {address: a, chief: true}\n- {address: b, ssh_config: gg}\n",
     "file:4: ssh_config: no group 'gg' under ssh:; did you mean 'g'?"},
    {"nodes: [{address: a, ssh_config: g}]\n", "no group 'g' under ssh:"},
    {GROUP "nodes:\n- {address: localhost, chief: true}\n- {address: b, ssh_config: g}\n",
     "file:3: localhost is a loopback address"},
    {GROUP "nodes:\n- {address: a, chief: true}\n- {address: A, ssh_config: g}\n",
     "file:4: the host A is already listed"},
    {"nodes:\n- address: a\n  port: 65536\n", "file:3: port: '65536' is not a whole number from 1 to 65535"},
    {"nodes: [{address: a, port: 0}]\n", "port: '0'"},
    {"nodes: [{address: a, gpus: [0, 1, 0]}]\n", "gpus: 0 is given twice"},
    {"nodes: [{address: a, gpus: [x]}]\n", "gpus: 'x' is not a whole number"},
    {"nodes: [{address: a, gpus: -1}]\n", "gpus: '-1' is not a whole number"},
    {"nodes: [{address: a, gpus: 1025}]\n", "gpus: '1025' is not a whole number from 0 to 1024"},
    {"nodes: [{address: a, chief: 1}]\n", "chief: '1' is neither true nor false"},
    {"nodes: [{address: a, network_bandwidth: 0}]\n", "is not a positive number of Gbit/s"},
    {"nodes: [{address: a, network_bandwidth: 10G}]\n", "'10G' is not a positive number of Gbit/s"},
    {"nodes: [{address: a, network_bandwidth: nan}]\n", "is not a positive number of Gbit/s"},
    {"nodes: [{address: a}]\nssh:\n  g: {user: u}\n",
     "file:3: ssh: unknown key 'user'; expected one of key_file, username,"},
    {"nodes: [{address: a}]\nssh:\n  g: {port: ssh}\n", "file:3: port: 'ssh'"},
    {"nodes: [{address: a}]\nssh:\n  g: {username: -oProxyCommand=x}\n",
     "file:3: username '-oProxyCommand=x' is not a valid user name"},
    {"nodes: [{address: me@a}]\n", "'me@a' contains a user name; set username in the host's ssh group"},
    {"nodes: [{address: a}]\nssh:\n  g: {username: 'a b'}\n", "is not a valid user name"},
    {"nodes: [{address: a}]\nssh:\n  g: {setup: \"a\\tb\"}\n", "file:3: setup contains a control character"},
    {"nodes: [{address: a}]\nssh:\n  g:\n    setup: |\n      a\n      b\n", "setup has more than one line"},
    {"nodes: [{address: a}]\nssh:\n  g: {setup: a\xC2\x9B}\n", "file:3: "},
    {"nodes: [{address: a}]\nssh:\n  g: {key_file: '-'}\n", "key_file: '-' is not a valid value"},
    {"nodes: [{address: a}]\nssh:\n  g: {setup: a, python_venv: b}\n",
     "python_venv is the old name of setup"},
    {"nodes: [{address: a}]\nssh:\n  g: {shared_envs: {A B: 1}}\n", "'A B' is not a valid variable name"},
    {"nodes: [{address: a}]\nssh:\n  g: {shared_envs: {A: 1, A: 2}}\n", "shared_envs: A is given twice"},
    {"nodes: [{address: a}]\nssh: {g: {}, g: {}}\n", "file:2: ssh: g is given twice"},
    {"nodes: [{address: a}]\n---\nnodes: [{address: b}]\n", "file:2: a second document"},
    {"nodes:\n- address: a\n\tport: 4\n", "file:3: not YAML"},
    {"nodes: [{address: a}\n", "not YAML"},
    {"nodes: [{address: a}]\nx: \xFF\n", "file:2: not YAML"},
    {"nodes: [{address: \"a\\0b\"}]\n", "address contains a zero character"},
    {"nodes: &a [*a]\n", "expected a map (key: value)"},
    {"nodes:\n- [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n", "file:2: lists and maps are nested too deeply"},
};

static void check_specs(void)
{
    check_reads(hosts_read_spec, good_spec,
                "10.0.0.1\t2\t0,1\t-\t-\t-\tyes\t-\t-\t-\n"
                "node2\t2\t1,3\t2222\tubuntu\t/keys/a b\tno\tjob.env\tsource /opt/activate && ulimit -l "
                "unlimited\t" ENVS "\n"
                "fe80::1\t3\t-\t2200\tubuntu\t/keys/a b\tno\tjob.env\tsource /opt/activate && ulimit -l "
                "unlimited\t" ENVS "\n"
                "node4\t1\t-\t-\t-\t-\tno\t-\t. /v\t-\n",
                "a spec; the chief comes first, a node's port goes before its group's");
    check_reads(hosts_read_spec, "nodes: [{address: localhost, gpus: }]\n",
                "localhost\t1\t-\t-\t-\t-\tyes\t-\t-\t-\n",
                "one node needs no chief and no login, and may be localhost");
    check_refusals(hosts_read_spec, bad_specs, N_OF(bad_specs));

    hosts_t hosts;
    OK_CALL(hosts_read_spec(good_spec, "file", &hosts), "a spec is read");
    const host_t *node2 = &hosts.at[1];
    OK(node2->n_envs == 3 && strcmp(node2->envs[0].name, "LD_LIBRARY_PATH") == 0 &&
           strcmp(node2->envs[0].value, "/x:/y") == 0 && strcmp(node2->envs[2].value, "") == 0,
       "with its environment");
    OK(hosts.at[0].bandwidth_gbits == 2.5 && hosts.at[0].gpus == HOST_GPUS_KNOWN &&
           hosts.at[2].gpus == HOST_GPUS_NONE && strcmp(node2->ssh_group, "g") == 0,
       "bandwidth, GPUs and group");
    hosts_free(&hosts);
}

static void check_home(void)
{
    const char *text = "nodes: [{address: a, ssh_config: g}]\nssh: {g: {key_file: ~/k, env_file: ~x/e}}\n";
    setenv("HOME", "/home/me", 1);
    check_reads(hosts_read_spec, text, "a\t1\t-\t-\t-\t/home/me/k\tyes\t~x/e\t-\t-\n",
                "~/ is this user's home");
    unsetenv("HOME");
    check_reads(hosts_read_spec, text, "a\t1\t-\t-\t-\t~/k\tyes\t~x/e\t-\t-\n",
                "~/ stays where no home is known");
}

typedef struct filter_case {
    const char *include, *exclude;
    const char *kept; /* host:ids, or slots where all are left; NULL: refused */
    const char *message;
} filter_case_t;

static const char filtered[] = "w0 slots=4\nw1 slots=4 max_slots=8\nw2 slots=2\n";

static const filter_case_t filter_cases[] = {
    {NULL, NULL, "w0=4 w1=4 w2=2 ", NULL},
    {"", "", "w0=4 w1=4 w2=2 ", NULL},
    {"w0@w1:0,2", NULL, "w0=4 w1:0,2 ", NULL},
    {"w2@W0", NULL, "w0=4 w2=2 ", NULL},
    {"w1:3,1", NULL, "w1:1,3 ", NULL},
    {NULL, "w1:0", "w0=4 w1:1,2,3 w2=2 ", NULL},
    {NULL, "w0", "w1=4 w2=2 ", NULL},
    {NULL, "w0:0,1,2,3@w2", "w1=4 ", NULL},
    {"w0", "w1", NULL, "cannot be combined"},
    {"w3", NULL, NULL, "--include: no host w3 in file"},
    {NULL, "w3:0", NULL, "--exclude: no host w3 in file"},
    {"w2:2", NULL, NULL, "w2 has no slot 2"},
    {NULL, "w2:0,2", NULL, "w2 has no slot 2"},
    {"w2:-1", NULL, NULL, "invalid slot '-1'"},
    {"w2:", NULL, NULL, "invalid slot ''"},
    {"w2:0,", NULL, NULL, "invalid slot ''"},
    {"w2:0:1", NULL, NULL, "invalid host"},
    {"w2:0,0", NULL, NULL, "slot 0 of w2 is named twice"},
    {"w2:0@w2:1", NULL, NULL, "w2 is named twice"},
    {"w0@", NULL, NULL, "invalid host ''"},
    {"w0 w1", NULL, NULL, "invalid host 'w0 w1'"},
    {NULL, "w0@w1@w2:0,1", NULL, "--exclude w0@w1@w2:0,1 leaves no hosts of file"},
};

static void list_kept(const hosts_t *hosts, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < hosts->n; i++) {
        const host_t *host = &hosts->at[i];
        used += (size_t)snprintf(out + used, room - used, host->ids ? "%s:" : "%s=%d", host->address,
                                 host->slots);
        for (int s = 0; host->ids && s < host->slots; s++)
            used += (size_t)snprintf(out + used, room - used, "%s%d", s ? "," : "", host->ids[s]);
        used += (size_t)snprintf(out + used, room - used, " ");
    }
}

static void check_filters(void)
{
    for (int i = 0; i < N_OF(filter_cases); i++) {
        const filter_case_t *c = &filter_cases[i];
        hosts_t hosts;
        char kept[256];
        if (hosts_read_hostfile(filtered, "file", &hosts) != ERR_OK) abort();
        err_t err = hosts_filter(&hosts, c->include, c->exclude);
        list_kept(&hosts, kept, sizeof kept);
        if (c->kept)
            OK(err == ERR_OK && strcmp(kept, c->kept) == 0 && hosts.at[0].chief, "include %s, exclude %s: %s",
               c->include ? c->include : "-", c->exclude ? c->exclude : "-", kept);
        else
            OK(err == ERR_USAGE && strstr(err_message(), c->message), "refused: %s", err_message());
        hosts_free(&hosts);
    }
    hosts_t hosts;
    OK_CALL(hosts_read_spec(good_spec, "file", &hosts), "a spec is read");
    OK(hosts_filter(&hosts, "node2:0", NULL) == ERR_USAGE && strstr(err_message(), "node2 has no slot 0"),
       "slots of a spec are the GPUs that it names");
    hosts_free(&hosts);
    OK_CALL(hosts_read_spec(good_spec, "file", &hosts), "again");
    OK(hosts_filter(&hosts, "[fe80:0::1]:1,2@node2:3", NULL) == ERR_OK &&
           strncmp(tsv(&hosts), "node2\t1\t3\t2222\tubuntu\t/keys/a b\tyes\t", 35) == 0 &&
           strstr(written, "\nfe80::1\t2\t-\t"),
       "IPv6 in brackets; the first that is left is chief; CPUs are no GPUs");
    hosts_free(&hosts);
    OK_CALL(hosts_read_hostfile("a\n", "file", &hosts), "a host without slots");
    OK(hosts_filter(&hosts, "a:0,5", NULL) == ERR_OK && strncmp(tsv(&hosts), "a\t2\t0,5\t", 8) == 0,
       "has the slots that are named");
    OK(hosts_filter(&hosts, NULL, "a:0") == ERR_OK, "of which one can be left out");
    hosts_free(&hosts);
    OK_CALL(hosts_read_hostfile("a\n", "file", &hosts), "again");
    OK(hosts_filter(&hosts, NULL, "a:0") == ERR_USAGE &&
           strstr(err_message(), "file gives no number of slots"),
       "but not of a number that is not known");
    hosts_free(&hosts);
}

static void check_written(void)
{
    hosts_t hosts;
    FILE *out;
    OK_CALL(hosts_read_spec(good_spec, "file", &hosts), "a spec is read");
    OK(hosts_default_login(&hosts, 22, "-x", NULL) == ERR_USAGE, "a user that ssh would take for an option");
    OK(hosts_default_login(&hosts, 22, NULL, "a\nb") == ERR_USAGE, "a key file of two lines");
    OK_CALL(hosts_default_login(&hosts, 23, "me", "100%"), "a login for those of which nothing is said");
    OK(strstr(tsv(&hosts),
              "10.0.0.1\t2\t0,1\t23\tme\t100%\tyes\t-\t-\t-\nnode2\t2\t1,3\t2222\tubuntu\t/keys/a b\t"),
       "fills gaps only");
    out = fmemopen(written, sizeof written, "w");
    OK_CALL(hosts_write_ssh_config(&hosts, "/etc/known", out), "an ssh config");
    fclose(out);
    OK(strstr(written,
              "Host 10.0.0.1\n    HostName 10.0.0.1\n    Port 23\n    User me\n    IdentityFile \"100%%\"\n"),
       "a percent sign is doubled, and a path is in quotes");
    OK(strstr(written, "UserKnownHostsFile \"/etc/known\"\n    GlobalKnownHostsFile /dev/null\n"
                       "    StrictHostKeyChecking yes\n    BatchMode yes\n"),
       "host keys come from one file");
    OK(hosts_write_ssh_config(&hosts, "a\"b", stdout) == ERR_USAGE, "a path that ssh has no way to write");
    hosts_free(&hosts);

    OK_CALL(hosts_read_hostfile(filtered, "file", &hosts), "a hostfile is read");
    OK_CALL(hosts_filter(&hosts, NULL, "w1:0"), "less a slot");
    out = fmemopen(written, sizeof written, "w");
    hosts_write_hostfile(&hosts, out);
    fclose(out);
    OK(strcmp(written, "w0 slots=4\nw1 slots=3 max_slots=8\nw2 slots=2\n") == 0, "a hostfile is written");
    hosts_free(&hosts);
    check_reads(
        hosts_read_hostfile, written,
        "w0\t4\t-\t-\t-\t-\tyes\t-\t-\t-\nw1\t3\t-\t-\t-\t-\tno\t-\t-\t-\nw2\t2\t-\t-\t-\t-\tno\t-\t-\t-\n",
        "and read again");
}

static void check_sources(void)
{
    static const struct {
        const char *source;
        err_t code;
        const char *message;
    } cases[] = {
        {"hosts.txt", ERR_DATA, "no such file: hosts.txt"},
        {"./no:such", ERR_DATA, "no such file: ./no:such"},
        {"no-such.yaml", ERR_DATA, "no such file: no-such.yaml"},
        {"", ERR_DATA, "no such file: "},
        {"/", ERR_DATA, "/ is a folder"},
        {"a:0", ERR_USAGE, "the list of hosts, entry 1: invalid 'a:0'"},
    };
    hosts_t hosts;
    for (int i = 0; i < N_OF(cases); i++) {
        err_t err = hosts_read(cases[i].source, &hosts);
        OK(err == cases[i].code && strstr(err_message(), cases[i].message), "'%s': %s", cases[i].source,
           err_message());
    }
    OK_CALL(hosts_read("node1,node2", &hosts), "a word with a comma is a list");
    OK(hosts.n == 2, "of two");
    hosts_free(&hosts);
}

/* A long line and many hosts. */
static void check_sizes(void)
{
    enum { LONG = 1 << 20 };
    char *text;
    hosts_t hosts;
    if (mem_new(LONG + (HOSTS_MAX + 1) * 8, "a text", &text) != ERR_OK) abort();
    memset(text, 'x', LONG);
    OK(hosts_read_hostfile(text, "file", &hosts) == ERR_DATA && strstr(err_message(), "longer than 253"),
       "a name of a megabyte");
    OK(hosts_read_spec(text, "file", &hosts) == ERR_DATA, "as YAML");
    memset(text, '[', LONG);
    OK(hosts_read_spec(text, "file", &hosts) == ERR_DATA && strstr(err_message(), "too deeply"),
       "a million lists in lists");
    size_t used = 0;
    for (int i = 0; i <= HOSTS_MAX; i++) used += (size_t)sprintf(text + used, "n%x\n", i + 0x10000);
    OK(hosts_read_hostfile(text, "file", &hosts) == ERR_DATA &&
           strstr(err_message(), "file:65537: more than 65536"),
       "too many hosts");
    text[used - 7] = '\0';
    OK_CALL(hosts_read_hostfile(text, "file", &hosts), "as many as there may be");
    OK(hosts.n == HOSTS_MAX, "all of them");
    hosts_free(&hosts);
    mem_free(&text);
}

/* Damaged texts are read or refused with a place, and leave nothing behind. */
static void check_damage(reader_t *reader, const char *text, const char *what)
{
    enum { ROUNDS = 4000 };
    static const char bytes[] = "\n\t \r:,[]{}&*#-@=%'\"|>?~!\\0a9\x80\xC2\xFF";
    rng_t rng = rng_new(7, RNG_TEST, 0);
    int n_refused = 0, n_read = 0, n_wrong = 0;
    size_t n = strlen(text);
    char *copy;
    int64_t live = mem_live();
    if (mem_new(n + 2, "a text", &copy) != ERR_OK) abort();
    for (int i = 0; i < ROUNDS; i++) {
        hosts_t hosts;
        memcpy(copy, text, n + 1);
        for (int k = 0; k <= i % 3; k++) {
            size_t at = rng_below(&rng, (uint32_t)n);
            copy[at] = bytes[rng_below(&rng, sizeof bytes - 1)];
        }
        if (i % 7 == 0) copy[rng_below(&rng, (uint32_t)n)] = '\0';
        err_t err = reader(copy, "file", &hosts);
        n_read += err == ERR_OK;
        n_refused += err == ERR_DATA;
        if (err == ERR_OK ? hosts.n < 1 || !hosts.at[0].chief
                          : err != ERR_DATA || strncmp(err_message(), "file", 4)) {
            n_wrong++;
            printf("# %d: %s\n", err, err_message());
        }
        hosts_free(&hosts);
    }
    mem_free(&copy);
    OK(n_wrong == 0 && n_read > ROUNDS / 100 && n_refused > ROUNDS / 20 && mem_live() == live,
       "%s, damaged: %d read, %d refused", what, n_read, n_refused);
}

int main(void)
{
    enum { N_REFUSALS = N_OF(bad_hostfiles) + N_OF(bad_lists) + N_OF(bad_specs) };
    tap_plan(5 + 2 + 2 + N_REFUSALS + N_OF(counted) + 3 + 2 + N_OF(filter_cases) + 9 + 13 + 8 + 6 + 3);
    check_hostfiles();
    check_lists();
    check_counts();
    check_specs();
    check_home();
    check_filters();
    check_written();
    check_sources();
    check_sizes();
    check_damage(hosts_read_hostfile, filtered, "a hostfile");
    check_damage(hosts_read_spec, good_spec, "a spec");
    OK(mem_live() == 0, "all memory is given back");
    return tap_done();
}
