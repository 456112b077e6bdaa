import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { until } from "./machine.ts";

// Controllers of cgroup v1 are apart from the hierarchy in which systemd keeps its units: a process that is moved in one
// of them stays where it is for systemd.
const ROOT = "/sys/fs/cgroup";

type Controller = "memory" | "freezer";

/** Why there is no control group of this kind for a test; false where there is. */
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
    // What is left goes back to where all processes are: it belongs to a machine that ends later.
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
    // A process that has ended meanwhile is no failure; a group that is still in use is tried again.
    return false;
  }
}
