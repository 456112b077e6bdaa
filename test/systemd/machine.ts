import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  rmdirSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("../fixtures/systemd/machine.sh", import.meta.url));
const CLIENT = fileURLToPath(new URL("../fixtures/systemd/client.mjs", import.meta.url));
const SYSTEMD = "/usr/lib/systemd/systemd";
const UNITS = "/usr/lib/systemd/system";

/** The only other unit that runs; without the others a boot is seconds shorter. */
const KEPT = /^systemd-journald/;
const WANTS = ["sysinit", "local-fs", "sockets", "timers", "multi-user", "getty"];

const BOOT_MS_MAX = 60_000;
const LOOK_AGAIN_MS = 50;

/** How a command ended. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A request to the daemon in the machine. */
export interface MachineRequest {
  readonly path: string;
  readonly key: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** `/etc` and `/var` of a machine, which survive a power cut. */
export interface MachineDisk {
  /** A folder with both of them. */
  readonly state: string;
  /** How to end each machine that was booted from it. */
  readonly ends: (() => Promise<void>)[];
}

/** A new disk; it is removed when the test ends, after its machines. */
export function newDisk(t: TestContext): MachineDisk {
  const state = mkdtempSync(join(tmpdir(), "postbackd-machine-"));
  const ends: MachineDisk["ends"] = [];
  t.after(async () => {
    await Promise.all(ends.map((end) => end()));
    rmSync(state, { recursive: true, force: true });
  });
  const etc = join(state, "etc");
  const own = join(etc, "systemd", "system");
  mkdirSync(own, { recursive: true });
  mkdirSync(join(state, "var", "lib"), { recursive: true });
  const files = {
    passwd: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
    group: "root:x:0:\nnogroup:x:65534:\n",
    shadow: "",
    gshadow: "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    hosts: "127.0.0.1 localhost\n",
    "machine-id": `${"0123456789abcdef".repeat(2)}\n`,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(etc, name), text);
  for (const name of ["ld.so.cache", "login.defs"])
    if (existsSync(`/etc/${name}`)) copyFileSync(`/etc/${name}`, join(etc, name));
  symlinkSync(join(UNITS, "multi-user.target"), join(own, "default.target"));
  for (const name of [...WANTS.flatMap(wantedBy), "systemd-remount-fs.service"]) {
    if (!KEPT.test(name) && !existsSync(join(own, name))) symlinkSync("/dev/null", join(own, name));
  }
  return { state, ends };
}

function wantedBy(target: string): readonly string[] {
  const folder = join(UNITS, `${target}.target.wants`);
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.endsWith(".target")) : [];
}

/** The reason why no machine can be booted here, or false. Throws with POSTBACKD_TEST_PEERS=required if systemd is missing. */
export async function reasonToSkipMachine(): Promise<string | false> {
  if (process.geteuid?.() !== 0) return "only root may make namespaces";
  if (!existsSync(SYSTEMD)) {
    const reason = "not installed: run 'apt-get install systemd dbus util-linux'";
    assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", reason);
    return reason;
  }
  const args = ["--pid", "--fork", "--mount", "--net", "--ipc", "--uts", "--cgroup", "true"];
  const { code, stderr } = await runHere(["unshare", ...args]);
  return code === 0 ? false : `this machine allows no namespaces: ${stderr.trim()}`;
}

/** A booted machine; it ends with the test. */
export class Machine {
  readonly #init: number;
  readonly #end: () => Promise<void>;

  private constructor(init: number, end: () => Promise<void>) {
    this.#init = init;
    this.#end = end;
  }

  /** Boots it with the executable at /opt/postbackd/postbackd, until all its units run. */
  static async boot({ state, ends }: MachineDisk, executable: string): Promise<Machine> {
    const root = mkdtempSync(join(tmpdir(), "postbackd-root-"));
    const args = ["--mount", "sh", SCRIPT, root, state, executable];
    const child = spawn("unshare", args, { stdio: ["pipe", "pipe", "pipe"] });
    const closed = once(child, "close");
    const end = async (): Promise<void> => {
      child.stdin.end();
      await closed;
      rmSync(root, { recursive: true, force: true });
    };
    ends.push(end);
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
    const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
    assert.ok(first.done !== true, `the machine did not boot: ${said}`);
    const init = await until(
      () => onlyChildOf(Number(first.value)) ?? undefined,
      () => said,
    );
    const machine = new Machine(init, end);
    await until(
      async () => {
        assert.ok(child.exitCode === null, `the machine ended: ${said}`);
        const { stdout } = await machine.run("systemctl", "is-system-running");
        return /running|degraded/.test(stdout) ? true : undefined;
      },
      () => said,
    );
    return machine;
  }

  /** Runs a command inside, as root. */
  run(...command: readonly [string, ...string[]]): Promise<Ended> {
    const spaces = ["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"];
    const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", SYSTEMD_PAGER: "", LC_ALL: "C" };
    return runHere(["nsenter", "--target", String(this.#init), ...spaces, "--", ...command], {
      env,
    });
  }

  /** Runs a command that must succeed, and returns its output. */
  async does(...command: readonly [string, ...string[]]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...command);
    assert.equal(code, 0, `${command.join(" ")}: ${stderr}`);
    return stdout.trim();
  }

  /** A property of the unit. */
  show(property: string): Promise<string> {
    return this.does("systemctl", "show", "--value", "--property", property, "postbackd");
  }

  /** Settles as soon as the property has a value that is right. */
  async untilShown(property: string, isRight: (value: string) => boolean): Promise<string> {
    let value = "";
    return until(
      async () => {
        value = await this.show(property);
        return isRight(value) ? value : undefined;
      },
      () => `${property} is ${value}`,
    );
  }

  /** Sends requests to the daemon concurrently, and returns its envelopes in their order. */
  async call(requests: readonly MachineRequest[]): Promise<readonly Envelope[]> {
    const { code, stdout, stderr } = await this.#send(requests);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout) as readonly Envelope[];
  }

  /** Sends requests, and returns null if one of them got no response. */
  async tryCall(requests: readonly MachineRequest[]): Promise<readonly Envelope[] | null> {
    const { code, stdout } = await this.#send(requests);
    return code === 0 ? (JSON.parse(stdout) as readonly Envelope[]) : null;
  }

  #send(requests: readonly MachineRequest[]): Promise<Ended> {
    const input = JSON.stringify(requests);
    return runHere([...this.network, process.execPath, CLIENT], { input });
  }

  /** The prefix of a command of this machine on the network of the booted machine. */
  get network(): readonly [string, ...string[]] {
    return ["nsenter", "--target", String(this.#init), "--net", "--"];
  }

  /** The pid on this machine of one of its processes. */
  outside(pid: string): number {
    const space = readlinkSync(`/proc/${this.#init}/ns/pid`);
    const found = readdirSync("/proc").find(
      (name) => /^\d+$/.test(name) && isInside(name, { pid, space }),
    );
    return Number(found ?? assert.fail(`no process ${pid} in the machine`));
  }

  /** The pid on this machine of a child with this title. */
  childOutside(pid: string, title: string): number {
    const parent = this.outside(pid);
    const found = readdirSync(`/proc/${parent}/task`)
      .flatMap((thread) =>
        readFileSync(`/proc/${parent}/task/${thread}/children`, "utf8").split(" "),
      )
      .find((child) => child !== "" && isTitled(child, title));
    return Number(found ?? assert.fail(`${pid} has not started ${title}`));
  }

  /** Cuts its power. */
  end(): Promise<void> {
    return this.#end();
  }
}

function isTitled(pid: string, title: string): boolean {
  const file = `/proc/${pid}/cmdline`;
  return existsSync(file) && readFileSync(file, "utf8").startsWith(title);
}

function isInside(
  outside: string,
  { pid, space }: { readonly pid: string; readonly space: string },
): boolean {
  try {
    const status = readFileSync(`/proc/${outside}/status`, "utf8");
    const numbers = /^NSpid:\s+(.*)$/m.exec(status)?.[1]?.split("\t") ?? [];
    return numbers.at(-1) === pid && readlinkSync(`/proc/${outside}/ns/pid`) === space;
  } catch {
    // Processes of this machine come and go.
    return false;
  }
}

/** The part of an envelope that tests read. */
export interface Envelope {
  readonly status_code: number;
  readonly tasks: readonly {
    readonly id: string;
    readonly status_code: number;
    readonly state: string;
    readonly error: unknown;
  }[];
}

function onlyChildOf(pid: number): number | null {
  try {
    const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
    return child === undefined || child === "" ? null : Number(child);
  } catch {
    // It has ended, and the caller reports why.
    return null;
  }
}

/** Polls until `ask` returns a value: the machine sends no events. */
export async function until<Value>(
  ask: () => Promise<Value | undefined> | Value | undefined,
  describe: () => string,
): Promise<Value> {
  const end = performance.now() + BOOT_MS_MAX;
  for (;;) {
    const value = await ask();
    if (value !== undefined) return value;
    assert.ok(performance.now() < end, `not so within ${BOOT_MS_MAX} ms: ${describe()}`);
    await wait(LOOK_AGAIN_MS);
  }
}

/** Runs a command of this machine to its end. */
export function runHere(
  [file, ...args]: readonly [string, ...string[]],
  { env, input = "" }: { readonly env?: NodeJS.ProcessEnv; readonly input?: string } = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { maxBuffer: 64 * 1024 ** 2, ...(env !== undefined && { env }) };
    const child = execFile(file, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, stdout, stderr: stderr || (error?.message ?? "") });
    });
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}

// Controllers of cgroup v1 are not in systemd's hierarchy: a process that moves in one of them keeps its unit.
const GROUPS = "/sys/fs/cgroup";

type Controller = "memory" | "freezer";

/** The reason why a test gets no control group of this kind, or false. */
export function noControlGroup(controller: Controller): string | false {
  const file = controller === "memory" ? "memory.limit_in_bytes" : "cgroup.procs";
  return existsSync(join(GROUPS, controller, file))
    ? false
    : `this machine has no ${controller} controller of cgroup v1`;
}

/** A control group of this machine. */
export interface ControlGroup {
  set(file: string, value: string): void;
  read(file: string): string;
}

/** A new control group; it is removed when the test ends and no process is left in it. */
export function newControlGroup(t: TestContext, controller: Controller): ControlGroup {
  const folder = join(GROUPS, controller, `postbackd-test-${process.pid}-${groups++}`);
  mkdirSync(folder);
  const read = (file: string): string => readFileSync(join(folder, file), "utf8");
  const set = (file: string, value: string): void => writeFileSync(join(folder, file), value);
  t.after(async () => {
    // The rest goes back to the root group: it belongs to a machine that ends later.
    for (const pid of read("cgroup.procs").split("\n")) {
      if (pid !== "") tryTo(() => writeFileSync(join(GROUPS, controller, "cgroup.procs"), pid));
    }
    await until(
      () => tryTo(() => rmdirSync(folder)) || undefined,
      () => `${folder} cannot be removed`,
    );
  });
  return { set, read };
}

let groups = 0;

function tryTo(step: () => void): boolean {
  try {
    step();
    return true;
  } catch {
    // The process has ended, or the group is in use and is tried again.
    return false;
  }
}
