# State windows from a shell script that is being measured. POSIX sh, with od
# and sleep; read it with '.', and send what it prints to the wire:
#
#	. ./joulemark.sh
#	exec 3>/dev/ttyUSB0
#	jm hello proto=1 target=pi1 impl=openssl >&3
#	jm_window ML-DSA-44 sign 1000 ./sign-1000-times >&3
#
# docs/recipes/instrument.md says how to choose n.

# jm_crc TEXT sets jm_c to its CRC-16/CCITT-FALSE.
jm_crc() {
	jm_c=65535
	for jm_b in $(printf '%s' "$1" | od -An -v -tu1); do
		jm_x=$(((jm_c >> 8 ^ jm_b) & 255))
		jm_x=$((jm_x ^ jm_x >> 4))
		jm_c=$(((jm_c << 8 ^ jm_x << 12 ^ jm_x << 5 ^ jm_x) & 65535))
	done
}

# jm_escape VALUE sets jm_value to it as it stands on the wire.
jm_escape() {
	jm_value=$1
	case $1 in
	*[!A-Za-z0-9._/+:,-]*) ;;
	*) return ;;
	esac
	jm_value=$(
		for jm_b in $(printf '%s' "$1" | od -An -v -tu1); do
			case $jm_b in
			37 | 42 | 61 | 64) printf '%%%02X' "$jm_b" ;;
			3[3-9] | [4-9][0-9] | 10[0-9] | 11[0-9] | 12[0-6]) printf "\\$((jm_b >> 6))$((jm_b >> 3 & 7))$((jm_b & 7))" ;;
			*) printf '%%%02X' "$jm_b" ;;
			esac
		done
	)
}

# jm KIND KEY=VALUE... prints one statement with its CRC.
jm() {
	jm_line="@jm $1"
	shift
	for jm_field; do
		jm_escape "${jm_field#*=}"
		jm_line="$jm_line ${jm_field%%=*}=$jm_value"
	done
	jm_crc "$jm_line"
	printf '%s *%04X\n' "$jm_line" "$jm_c"
}

# jm_window ALG OP N COMMAND... keeps quiet, runs the command, which does N
# operations, with its output on stderr, keeps quiet again, and fails as the
# command does. The window holds the start of the command; make N so large that
# it does not count. A shell has no clock that is fine enough, so that the lines
# carry no time: what counts is when they arrive.
jm_window() {
	jm_begin=$(jm begin "alg=$1" "op=$2" "n=$3")
	jm_end=$(jm end "alg=$1" "op=$2" "n=$3")
	shift 3
	sleep "${JM_QUIET:-1}"
	printf '%s\n' "$jm_begin"
	"$@" >&2
	jm_status=$?
	[ "$jm_status" -ne 0 ] || printf '%s\n' "$jm_end"
	sleep "${JM_QUIET:-1}"
	return "$jm_status"
}
