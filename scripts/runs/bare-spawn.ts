import { spawn } from "node:child_process";
import { once } from "node:events";

// What the machine itself takes for a process: a loop that starts a program, gives it a line and reads its
// output, and nothing else. Run by Node alone, without a loader, because a larger process is slower to fork.
//
// node bare-spawn.ts PROGRAM COUNT CONCURRENCY pipe|ignore → one line with the number started a second

const [program = "", count = "", concurrency = "", stdio = ""] = process.argv.slice(2);
const LINE = `${JSON.stringify({ id: "", type: "true", tag: null, marketplace: null, input: null })}\n`;

await startOneAfterTheOther(Number(concurrency) * 10);
const startedAt = performance.now();
await startOneAfterTheOther(Number(count));
process.stdout.write(`${(Number(count) * 1000) / (performance.now() - startedAt)}\n`);

async function startOneAfterTheOther(total: number): Promise<void> {
  let left = total;
  const lane = async (): Promise<void> => {
    while (left-- > 0) await runOnce();
  };
  await Promise.all(Array.from({ length: Number(concurrency) }, lane));
}

async function runOnce(): Promise<void> {
  const child = spawn(program, { stdio: stdio === "pipe" ? "pipe" : "ignore" });
  child.stdout?.resume();
  child.stderr?.resume();
  // It may have ended before it is written to.
  child.stdin?.on("error", () => {});
  child.stdin?.end(LINE);
  await once(child, "close");
}
