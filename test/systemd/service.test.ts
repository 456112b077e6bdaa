import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { BINARY } from "../dist/binary.ts";
import {
  Machine,
  reasonToSkipMachine,
  newDisk,
  runHere,
  until,
  type MachineDisk,
} from "./machine.ts";
import {
  CONFIG_FILE,
  createAccount,
  DATA_FOLDER,
  endsOf,
  installService,
  logOf,
  override,
  post,
  PROGRAM,
  untilLogged,
  type Service,
} from "./service.ts";

// More rounds find rare faults.
const ROUNDS = Number(process.env["POSTBACKD_TEST_ROUNDS"] ?? 2);

const CONFIG_TEXT = `database = "${DATA_FOLDER}/postbackd.db"
[limits]
disk_free = "4MiB"
[types.short]
command = ["sh", "-c", "sleep 0.2; echo done"]
concurrency = 4
`;

const skip = await reasonToSkipMachine();

async function exposure(): Promise<number> {
  const unit = join(import.meta.dirname, "..", "..", "deploy", "postbackd.service");
  const { stdout } = await runHere(["systemd-analyze", "security", "--offline=true", unit]);
  return Number(/exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]);
}

test("systemd-analyze gives the unit an exposure of at most 1.5", { skip }, async () => {
  const found = await exposure();
  assert.ok(found <= 1.5, `it is ${found}`);
});

test("the daemon is a service of systemd", { skip }, async (t) => {
  const disk = newDisk(t);
  const machine = await Machine.boot(disk, BINARY);
  const service = await installService(machine, disk, CONFIG_TEXT);
  await isReady(t, service);
  await restarts(t, service, disk);
  await isRestarted(t, service, disk);
  await survivesFullDisk(t, service);
  await survivesPowerCut(t, service, disk);
});

async function isReady(t: TestContext, { machine }: Service): Promise<void> {
  await t.test("the service is active when it serves, with its URL as its status", async () => {
    assert.equal(await machine.show("ActiveState"), "active");
    assert.equal(await machine.show("StatusText"), "Serving at http://127.0.0.1:8787");
    assert.equal(await machine.show("NRestarts"), "0");
  });

  await t.test("a second installation keeps user and configuration", async () => {
    const said = await machine.does(PROGRAM, "service", "install");
    assert.match(said, /user postbackd: was so before/);
    assert.match(said, /configuration \S+: was so before/);
    assert.equal(await machine.does("cat", CONFIG_FILE), CONFIG_TEXT.trim());
  });

  await t.test("a reload keeps the service active", async () => {
    const pid = await machine.show("MainPID");
    await machine.does("systemctl", "reload", "postbackd");
    await untilLogged(machine, "configuration reloaded");
    await machine.untilShown("ActiveState", (value) => value === "active");
    assert.equal(await machine.show("MainPID"), pid);
  });
}

async function restarts(t: TestContext, service: Service, disk: MachineDisk): Promise<void> {
  for (const mode of ["mixed", "control-group"]) {
    await t.test(`restarts during work fail no task with KillMode=${mode}`, async () => {
      const { machine } = service;
      await override(machine, disk, `KillMode=${mode}`);
      const ids: string[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        ids.push(...(await post(service, { type: "short", count: 20 })));
        // So many restarts in a minute would be refused.
        await machine.does("systemctl", "reset-failed", "postbackd");
        await machine.does("systemctl", "restart", "postbackd");
      }

      assert.deepEqual(await endsOf(service, ids), { completed: ids.length });
      assert.equal(await machine.show("NRestarts"), "0");
    });
  }
}

async function isRestarted(t: TestContext, service: Service, disk: MachineDisk): Promise<void> {
  const { machine } = service;

  await t.test("systemd restarts a killed daemon, and every task ends", async () => {
    const ids = await post(service, { type: "short", count: 8 });
    await machine.does("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "postbackd");
    await machine.untilShown("NRestarts", (value) => value === "1");
    await machine.untilShown("ActiveState", (value) => value === "active");

    assert.deepEqual(await endsOf(service, ids), { completed: ids.length });
  });

  await t.test("the watchdog restarts a daemon that hangs", async () => {
    // A hang of 10 s; and no memory is written to disk.
    await override(machine, disk, "WatchdogSec=10", "LimitCORE=0");
    await machine.does("systemctl", "restart", "postbackd");
    const pid = await machine.show("MainPID");
    await machine.does("kill", "-STOP", pid);
    await machine.untilShown("MainPID", (value) => value !== pid && value !== "0");
    await machine.untilShown("ActiveState", (value) => value === "active");

    assert.match(await logOf(machine), /Watchdog timeout/);
    await override(machine, disk);
  });
}

async function survivesFullDisk(t: TestContext, service: Service): Promise<void> {
  await t.test("a full disk does not end the daemon, and freed space is used", async () => {
    const { machine } = service;
    await machine.does("systemctl", "stop", "postbackd");
    await machine.does("mount", "-t", "tmpfs", "-o", "size=32m", "small", DATA_FOLDER);
    await machine.does("chown", "postbackd:postbackd", DATA_FOLDER);
    const small = { machine, key: await createAccount(machine) };
    await machine.does("systemctl", "start", "postbackd");
    const pid = await machine.show("MainPID");

    await machine.run("dd", "if=/dev/zero", `of=${DATA_FOLDER}/filler`, "bs=1M");
    const body = [{ type: "short" }];
    const request = { path: "/v1/tasks/task_post", key: small.key, body };
    const [refused] = await machine.call([request]);
    await machine.does("rm", `${DATA_FOLDER}/filler`);
    // The daemon checks free space once a second.
    const posted = await until(
      async () => {
        const [answer] = await machine.call([request]);
        return answer?.status_code === 50700 ? undefined : answer;
      },
      () => "there is still no room",
    );
    const ids = posted.tasks.map(({ id }) => id);

    const warnings = await machine.does(
      "journalctl",
      "--unit=postbackd",
      "--output=cat",
      "--priority=4",
    );
    assert.match(warnings, /^\{"level":"warn"/m);
    assert.doesNotMatch(warnings, /^\{"level":"info"/m);
    assert.equal(await machine.does("cat", `/proc/${pid}/comm`), "postbackd");
    assert.equal(refused?.status_code, 50700);
    assert.deepEqual(await endsOf(small, ids), { completed: 1 });
    assert.equal(await machine.show("MainPID"), pid);
    await machine.does("systemctl", "stop", "postbackd");
    await machine.does("umount", DATA_FOLDER);
    await machine.does("systemctl", "start", "postbackd");
  });
}

async function survivesPowerCut(
  t: TestContext,
  service: Service,
  disk: MachineDisk,
): Promise<void> {
  await t.test("the service starts after a power cut, and every task ends", async () => {
    const ids = await post(service, { type: "short", count: 20 });
    await service.machine.end();
    const machine = await Machine.boot(disk, BINARY);
    await machine.untilShown("ActiveState", (value) => value === "active");

    assert.deepEqual(await endsOf({ ...service, machine }, ids), { completed: ids.length });
  });
}
