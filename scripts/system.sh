# Packages of the operating system, installed when they are missing. Sourced by the set-up scripts.

apt_install() {
    if ! command -v apt-get >/dev/null; then
        echo "Please install $*: there is no apt-get here to do it." >&2
        exit 1
    fi
    as_root=""
    [ "$(id -u)" -eq 0 ] || as_root="sudo"
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

need_java() {
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ] || apt_install openjdk-17-jre-headless
}

need_postgres() {
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || apt_install postgresql
}
