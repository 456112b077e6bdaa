import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { createDaemonFile, startDaemon } from "./bench/bench-daemon.ts";
import { machineDescription } from "./bench/machine.ts";
import { CASES_TOML, prepareCases, type Case } from "./main-thread/cases.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";
import { textTable } from "./text-table.ts";

const HELP = `node --import tsx scripts/main-thread-cost.ts [options]

Sends each operation the worst input that the limits let through, one request at a time, and measures what it costs
the daemon's main thread: the time that Linux gave the thread (schedstat), from before the request until its answer has
been read. What waits, and what other threads do, is not in it.

  --repeat N      requests of each, after two that are not counted (20)
  --program P     source, binary, or an executable (the binary, if it is newer than the sources)
  --folder DIR    where the database lies while it runs (the folder for temporary files)
`;

const UNCOUNTED = 2;

await runScript(mainThreadCost);

async function mainThreadCost(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      repeat: { type: "string", default: "20" },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  using scratch = new ScratchFolder(values.folder);
  const machine = machineDescription(scratch.path);
  const program = chooseProgram(values.program);
  const file = await createDaemonFile({ program, folder: scratch.path }, { more: CASES_TOML });
  await using daemon = await startDaemon(file);
  const rows: (readonly string[])[] = [];
  for (const each of await prepareCases(file, daemon)) {
    const { status, costsMs } = await measure(each, {
      url: daemon.url,
      pid: daemon.pid,
      repeat: Number(values.repeat),
    });
    const sorted = costsMs.toSorted((a, b) => a - b);
    const figures = [sorted[Math.floor(sorted.length / 2)] ?? 0, sorted.at(-1) ?? 0];
    rows.push([each.name, each.input, String(status), ...figures.map((ms) => ms.toFixed(2))]);
  }
  await daemon.stop();
  const right = { align: "right" } as const;
  const numbers = ["status", "median ms", "worst ms"].map((name) => ({ name, ...right }));
  const columns = [{ name: "operation" }, { name: "worst input" }, ...numbers];
  process.stdout.write(`${textTable(columns, rows)}\n\n${program.name}. ${machine}\n`);
}

interface Measured {
  readonly status: number;
  readonly costsMs: readonly number[];
}

async function measure(
  { method, path, body, key }: Case,
  { url, pid, repeat }: { readonly url: string; readonly pid: number; readonly repeat: number },
): Promise<Measured> {
  const headers = {
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
    ...(body !== undefined && { "content-type": "application/json" }),
  };
  const costsMs: number[] = [];
  let status = 0;
  for (let i = 0; i < UNCOUNTED + repeat; i++) {
    const before = mainThreadMs(pid);
    const answer = await fetch(`${url}${path}`, { method, headers, ...(body && { body }) });
    await answer.arrayBuffer();
    const costMs = mainThreadMs(pid) - before;
    if (i >= UNCOUNTED) costsMs.push(costMs);
    ({ status } = answer);
  }
  return { status, costsMs };
}

/** The time that Linux has given the main thread of a process, which has the process's id. */
function mainThreadMs(pid: number): number {
  const [nanos] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanos) / 1e6;
}
