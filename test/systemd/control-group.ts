import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { until } from "./machine.ts";

// Controllers of cgroup v1 are not in systemd's hierarchy: a process that moves in one of them keeps its unit.
const ROOT = "/sys/fs/cgroup";

type Controller = "memory" | "freezer";

/** The reason why a test gets no control group of this kind, or false. */
export function noControlGroup(controller: Controller): string | false {
  const file = controller === "memory" ? "memory.limit_in_bytes" : "cgroup.procs";
  return existsSync(join(ROOT, controller, file))
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
  const folder = join(ROOT, controller, `postbackd-test-${process.pid}-${groups++}`);
  mkdirSync(folder);
  const read = (file: string): string => readFileSync(join(folder, file), "utf8");
  const set = (file: string, value: string): void => writeFileSync(join(folder, file), value);
  t.after(async () => {
    // The rest goes back to the root group: it belongs to a machine that ends later.
    for (const pid of read("cgroup.procs").split("\n")) {
      if (pid !== "") tryTo(() => writeFileSync(join(ROOT, controller, "cgroup.procs"), pid));
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
