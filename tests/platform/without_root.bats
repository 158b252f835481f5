#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A user without root, apt-get and sudo, on a machine that has MPI and HDF5 only in a prefix: quickstart.sh says what is missing,
# then builds and trains with the prefix. It is made of this machine's packages, which an overlay hides from /usr. A few minutes:
# scripts/test.sh --slow.
# shellcheck disable=SC2154 # status, output: run sets them

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "builds anew, for minutes; scripts/test.sh --slow runs it"
    [[ $(id -u) -eq 0 ]] || skip "needs root, to hide libraries from a user"
    [[ -d $root/.git ]] || skip "no git repository here"
    command -v dpkg >/dev/null || skip "takes the libraries from Debian's packages"
    # Not in TMPDIR, which may be this user's alone.
    place=$(mktemp -d /tmp/dptrain-site.XXXXXX)
    chmod 755 "$place"
}

teardown() { [[ -z ${place-} ]] || rm -rf "$place"; }

# In a mount namespace of its own: moves MPI and HDF5 from /usr to PLACE/site, and runs the rest as the user nobody.
cat_inside() {
    cat <<'END'
set -e
place=$1 site=$1/site
mkdir -p "$site" "$place"/{layer,usr}
mount -t tmpfs tmpfs "$place/layer"
mkdir "$place"/layer/{up,work}
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$place/layer/up,workdir=$place/layer/work" "$place/usr"
dpkg -L $(dpkg-query -W -f '${Package}\n' 'libopenmpi*' 'openmpi-*' 'libhdf5-[0-9]*' 'libhdf5-dev' 2>/dev/null | sort -u) |
    sed -n 's,^/usr/,,p' | sort -u | while read -r file; do [ -d "/usr/$file" ] || [ ! -e "/usr/$file" ] || echo "$file"; done >"$place/moved"
tar -C /usr -cf - -T "$place/moved" | tar -C "$site" -xf -
(cd "$place/usr" && xargs rm -f <"$place/moved" && rm -f bin/apt-get bin/sudo bin/{mpi,ompi,orte,prte,pmix}*)
for tool in mpicc mpirun; do [ -e "$site/bin/$tool" ] || ln -s "$tool.openmpi" "$site/bin/$tool"; done
pc=$(dirname "$(find "$site" -name 'hdf5*.pc' | head -n 1)")
sed -i "s,/usr,$site," "$pc"/hdf5*.pc
mount --bind "$place/usr" /usr
# As a site's modules would. Debian's Open MPI is told that it was moved; it has no run paths of its own.
echo "export PKG_CONFIG_PATH=$pc MPICC=$site/bin/mpicc OPAL_PREFIX=$site LD_LIBRARY_PATH=$(dirname "$pc")" >"$place/modules"
user() { (cd "$place/home/dptrain" && setpriv --reuid=65534 --regid=65534 --clear-groups env -i HOME="$place/home" PATH=/usr/bin:/bin LC_ALL=C.UTF-8 bash -c "$1"); }
code=0
user scripts/quickstart.sh || code=$?
echo "without the modules: code $code"
user ". $place/modules && scripts/quickstart.sh"
# Debian has the libraries beside the folders that its files name, so that run paths do not lead to them.
user ". $place/modules && ldd dptrain | grep -E 'libmpi|libhdf5'"
END
}

@test "a user without root builds and trains with MPI and HDF5 in a prefix" {
    git clone -q "$root" "$place/home/dptrain"
    chown -R 65534:65534 "$place/home"
    cat_inside >"$place/inside"
    run unshare --mount --pid --fork --kill-child --mount-proc bash "$place/inside" "$place" </dev/null
    grep -vE '^  CC ' <<<"$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"the command mpicc"*HDF5*"without the modules: code 4"*"using $place/site/bin/mpirun"*"finished after "*"accuracy "*"Next:"* ]]
    [ "$(grep -c " => $place/site/" <<<"$output")" -ge 2 ]
    # What is not in the prefix comes from the system.
    [[ "$output" != *"libpng.pc"* ]]
}
