# shellcheck shell=bash
# private_apt.sh - sourced by the scripts: packages of another release or processor, fetched through an apt configuration of their own
# (own sources, own state and cache folders), so that the machine's sources and packages stay as they are.
#   debian_mirror                            where this machine's Debian comes from
#   private_apt DIR ARCH SOURCES PACKAGE...  downloads packages (not what they depend on) to DIR/debs; SOURCES: lines of a sources.list

debian_mirror() {
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | awk '!/security/ && /debian/ && !found { print; found = 1 }')
  echo "${mirror:-http://deb.debian.org/debian/}"
}

private_apt() {
  local dir=$1 arch=$2 sources=$3
  shift 3
  mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial" "$dir/debs"
  chmod -R a+rwx "$dir"
  printf '%s\n' "$sources" > "$dir/sources.list"
  local options=(-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$dir/state/lists"
                 -o "Dir::Cache=$dir/cache" -o "Dir::State=$dir/state" -o "Dir::State::status=$dir/state/status" -o APT::Get::List-Cleanup=0
                 -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o Acquire::Languages=none -o Acquire::Retries=2)
  touch "$dir/state/status"
  apt-get -qq "${options[@]}" update
  (cd "$dir/debs" && apt-get -qq "${options[@]}" download "$@")
}
