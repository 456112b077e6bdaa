import { spawn } from "node:child_process";
import { Socket } from "node:net";

// Its stdin closes when this process ends, also when nothing of this process can do anything about that.
const WATCHER = 'read -r _; rm -rf -- "$1"';

/** Removes a folder when this process has ended, by whatever signal. The machine must have a shell. */
export function removeAfterwards(folder: string): void {
  const watcher = spawn("/bin/sh", ["-c", WATCHER, "sh", folder], {
    stdio: ["pipe", "ignore", "ignore"],
    // A signal for the group, such as Ctrl-C, must not end it first.
    detached: true,
    cwd: "/",
  });
  for (const each of [watcher, watcher.stdin]) each.on("error", () => {});
  watcher.unref();
  // A pipe is a socket to Node, which would keep the process alive.
  if (watcher.stdin instanceof Socket) watcher.stdin.unref();
}
