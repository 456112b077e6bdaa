import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { LeaseRule } from "./lease-judge.ts";

/** The types of workers, with all that the checks count on; how the file spells it follows from this. */
export const LEASE_TYPES: Readonly<
  Record<string, LeaseRule & { readonly retries: number; readonly concurrency: number }>
> = {
  work: { leaseMs: 2000, timeoutMs: 10_000, retries: 2, concurrency: 2000 },
  brief: { leaseMs: 1000, timeoutMs: 5000, retries: 1, concurrency: 60 },
};

/** What a failed run of the type `command` is followed by. */
export const COMMAND_RETRIES = 1;

/** Marks every process that a daemon of the soak starts, by a variable of its environment. */
export const MARK = "POSTBACKD_SOAK_MARK";

// Every start of a command leaves a line here: the id of its task.
const STARTS = "starts";

// The answer to each mode is in task-plan.ts.
const SCRIPT = `#!/bin/sh
read -r line
id=\${line#*'"id":"'}; id=\${id%%'"'*}
nonce=\${line#*'"nonce":"'}; nonce=\${nonce%%'"'*}
echo "$id" >> ${STARTS}
case $line in
  *'"mode":"fail"'*) echo broken >&2; exit 3 ;;
  *'"mode":"hang"'*) sleep 600 ;;
  *'"mode":"stubborn"'*) trap '' TERM; while :; do sleep 1; done ;;
  *'"mode":"fork"'*) sleep 600 & ;;
  *'"mode":"flood"'*) exec head -c 6000000 /dev/zero ;;
  *'"mode":"slow"'*) sleep 1 ;;
esac
printf '{"done":"%s"}' "$nonce"
`;

/** The configuration of every type, in TOML, beside what all scripts have. */
export function soakSettings({
  serviceUrl,
  mark,
}: {
  readonly serviceUrl: string;
  readonly mark: string;
}): string {
  return `
[webhooks]
retry_after = ["1s", "2s", "3s"]
${Object.entries(LEASE_TYPES).map(leaseType).join("")}
[types.command]
command = ["sh", "command.sh"]
env = { ${MARK} = ${JSON.stringify(mark)} }
timeout = "3s"
retries = ${COMMAND_RETRIES}
concurrency = 12

[types.http]
url = ${JSON.stringify(serviceUrl)}
timeout = "60s"
concurrency = 16
`;
}

/** Writes what the type `command` runs into the folder of the daemon's file. */
export function writeCommand(folder: string): void {
  writeFileSync(join(folder, "command.sh"), SCRIPT);
  writeFileSync(join(folder, STARTS), "");
}

/** How often a command was started for each task, by its own word. */
export function countStarts(folder: string): ReadonlyMap<string, number> {
  const starts = new Map<string, number>();
  for (const id of readFileSync(join(folder, STARTS), "utf8").split("\n")) {
    if (id !== "") starts.set(id, (starts.get(id) ?? 0) + 1);
  }
  return starts;
}

function leaseType([name, type]: [string, (typeof LEASE_TYPES)[string]]): string {
  const { leaseMs, timeoutMs, retries, concurrency } = type;
  return `
[types.${name}]
runner = "worker"
lease = "${leaseMs / 1000}s"
timeout = "${timeoutMs / 1000}s"
retries = ${retries}
concurrency = ${concurrency}
`;
}
