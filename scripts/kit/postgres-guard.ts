import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";

// Its input ends with the process that holds the other end of it, even if that is killed with SIGKILL.
// A server that was stopped has to go on before it can end. It has ended when it has no program any more: `kill -0` would
// find one that has ended and that nobody waits for. After a kill -9 of all its processes 56 bytes of shared memory are
// left, whose number its file names: Linux has 4096 such numbers, and without one no server starts.
const SCRIPT = `
  server=
  while read -r pid; do server=$pid; done
  if [ -n "$server" ]; then
    kill -QUIT "$server"
    kill -CONT "$server"
    tries=0
    while readlink "/proc/$server/exe"; do
      tries=$((tries + 1))
      if [ "$tries" -eq 500 ]; then kill -KILL "$server"; fi
      sleep 0.02
    done
  fi
  sed -n 7p "$1/data/postmaster.pid" | while read -r key id; do ipcrm -m "$id"; done
  rm -rf "$1"
`;

/**
 * A process beside this one that ends a PostgreSQL server (SIGQUIT, after 10 s SIGKILL) and removes its folder, when it
 * is told to or this process ends: by SIGKILL too. It does not keep this process from ending.
 */
export class PostgresGuard {
  readonly #child: ChildProcess;
  readonly #input: Socket;

  constructor(folder: string) {
    // In a session of its own, where a Ctrl-C that is meant for this process does not end it first.
    this.#child = spawn("sh", ["-c", SCRIPT, "sh", folder], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#child.unref();
    if (!(this.#child.stdin instanceof Socket)) throw new Error("a pipe is not a socket of Node's");
    this.#input = this.#child.stdin;
    this.#input.unref();
  }

  /** Which process to end; null when it has ended. */
  watch(pid: number | null): void {
    this.#input.write(`${pid ?? ""}\n`);
  }

  /** Has it do its work now. Settles when that is done. */
  async finish(): Promise<void> {
    this.#child.ref();
    const { exitCode, signalCode } = this.#child;
    const ended = exitCode === null && signalCode === null ? once(this.#child, "exit") : null;
    this.#input.end();
    await ended;
  }
}
