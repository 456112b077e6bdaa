import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { until, type Machine, type MachineDisk } from "./machine.ts";

export const PROGRAM = "/opt/postbackd/postbackd";
export const CONFIG_FILE = "/etc/postbackd/postbackd.toml";
export const DATA_FOLDER = "/var/lib/postbackd";

/** The daemon as a service of a machine, and an account's key. */
export interface Service {
  readonly machine: Machine;
  readonly key: string;
}

/** Installs and starts the service on a machine, with an account. */
export async function installService(
  machine: Machine,
  disk: MachineDisk,
  config: string,
): Promise<Service> {
  await machine.does(PROGRAM, "service", "install");
  writeFileSync(join(disk.state, CONFIG_FILE), config);
  const key = await createAccount(machine);
  await machine.does("systemctl", "start", "postbackd");
  return { machine, key };
}

/** Makes an account in the service's database, and returns its key. */
export async function createAccount(machine: Machine): Promise<string> {
  const made = await machine.does(PROGRAM, "admin", "account", "create", "tester", "--json");
  return /pbd_live_\w+/.exec(made)?.[0] ?? assert.fail("no key");
}

/** Replaces the override of the unit's section [Service]. */
export async function override(
  machine: Machine,
  disk: MachineDisk,
  ...lines: string[]
): Promise<void> {
  const folder = "/etc/systemd/system/postbackd.service.d";
  await machine.does("mkdir", "-p", folder);
  const text = `[Service]\n${lines.join("\n")}\n`;
  writeFileSync(join(disk.state, folder, "test.conf"), text);
  await machine.does("systemctl", "daemon-reload");
}

/** Posts tasks of a type, and returns their ids. */
export async function post(
  { machine, key }: Service,
  { count, ...task }: { readonly count: number; readonly type: string },
): Promise<readonly string[]> {
  const body = Array.from({ length: count }, () => task);
  const [answer] = await machine.call([{ path: "/v1/tasks/task_post", key, body }]);
  assert.equal(answer?.tasks.length, count);
  assert.ok(answer.tasks.every(({ status_code: code }) => code === 20100));
  return answer.tasks.map(({ id }) => id);
}

/** Waits for the end of tasks, and returns the number of each state. */
export async function endsOf({ machine, key }: Service, ids: readonly string[]) {
  const headers = { prefer: "wait=60" };
  const answers = await machine.call(
    ids.map((id) => ({ path: `/v1/tasks/task_get/${id}?collect=false`, key, headers })),
  );
  const states = answers.flatMap(({ tasks }) => tasks.map(({ state }) => state));
  return Object.fromEntries(
    Map.groupBy(states, (state) => state)
      .entries()
      .map(([state, all]) => [state, all.length]),
  );
}

/** The log of the daemon since the boot. */
export function logOf(machine: Machine): Promise<string> {
  return machine.does("journalctl", "--unit=postbackd", "--output=cat");
}

/** Settles when the log has the text. */
export async function untilLogged(machine: Machine, text: string): Promise<void> {
  await until(
    async () => (await logOf(machine)).includes(text) || undefined,
    () => `not logged: ${text}`,
  );
}
