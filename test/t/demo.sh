# demo.sh - a demo and what its verdicts say; after tap.sh and load.sh, called by `timed` (load.sh).
# SPDX-License-Identifier: Apache-2.0

demo() # NAME OPTION...: with 4 ranks; $TAP/answer is its JSON, and its log says the same again
{
    demo_name=$1
    shift
    timed_ok "$demo_name" 100 "$LOCKSTEP" demo --json --name "$demo_name" --ranks 4 "$@" || return
    cp "$TAP/out" "$TAP/answer"
    ok "... and its log says it again" "$LOCKSTEP" why --replay "$demo_name"
}

said() # KIND LAYER ranks|nodes LIST: whether a verdict of the last demo says that, with evidence
{
    python3 -c '
import json, sys
answer, kind, layer, who, expected = sys.argv[1:]
answer = json.load(open(answer))
print("injected:", answer["injected"])
for verdict in answer["verdicts"]:
    print(verdict["kind"], verdict["layer"], verdict[who], verdict["cause"])
    if [verdict["kind"], verdict["layer"], json.dumps(verdict[who])] == [kind, layer, expected]:
        sys.exit(0 if verdict["because"] else 1)
sys.exit(1)' "$TAP/answer" "$@" >"$TAP/out" 2>&1
    timed_result $? "says $1, $2, $3 $4"
}

demo_says() # KIND LAYER ranks|nodes LIST NAME OPTION...: a demo, and what must be said of it
{
    demo_kind=$1 demo_layer=$2 demo_who=$3 demo_list=$4
    shift 4
    demo "$@" || return
    said "$demo_kind" "$demo_layer" "$demo_who" "$demo_list"
}
