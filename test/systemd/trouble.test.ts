import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { BINARY } from "../dist/binary.ts";
import {
  Machine,
  type MachineDisk,
  reasonToSkipMachine,
  newControlGroup,
  newDisk,
  noControlGroup,
  until,
} from "./machine.ts";
import {
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

const CONFIG_TEXT = `database = "${DATA_FOLDER}/postbackd.db"
[types.short]
command = ["sh", "-c", "sleep 0.2; echo done"]
concurrency = 4
[types.hungry]
command = ["tail", "/dev/zero"]
[types.echo]
runner = "echo"
`;
const MIB_BYTES = 1024 ** 2;
/** The title of the process that starts the commands. */
const COMMAND_HOST = "postbackd command-host";

const skip = await reasonToSkipMachine();

test("a service of systemd in trouble", { skip }, async (t) => {
  const disk = newDisk(t);
  const machine = await Machine.boot(disk, BINARY);
  const service = await installService(machine, disk, CONFIG_TEXT);
  await outlivesHungryCommand(t, service);
  await comesBackAfterOom(t, service);
  await opensNoDebugger(t, service);
  await servesWithoutNetlink(t, service, disk);
  await makesBackups(t, service, disk);
  await isRestartedWhenBlocked(t, service, disk);
});

async function outlivesHungryCommand(t: TestContext, service: Service): Promise<void> {
  const { machine } = service;

  await t.test("the unit keeps the daemon when the kernel ends a command", async () => {
    assert.equal(await machine.show("OOMPolicy"), "continue");
  });

  await t.test(
    "a command that is killed for want of memory has failed, and the daemon goes on",
    { skip: noControlGroup("memory") },
    async (t) => {
      assert.deepEqual(await endsOf(service, await post(service, { type: "short", count: 1 })), {
        completed: 1,
      });
      const pid = await machine.show("MainPID");
      const host = machine.childOutside(pid, COMMAND_HOST);
      // Far more than the host of the commands has, so that the kernel does not choose that one.
      const group = newControlGroup(t, "memory");
      group.set("memory.limit_in_bytes", String(256 * MIB_BYTES));
      group.set("cgroup.procs", String(host));

      const hungry = await post(service, { type: "hungry", count: 1 });
      const others = await post(service, { type: "short", count: 8 });

      assert.deepEqual(await endsOf(service, hungry), { failed: 1 });
      assert.deepEqual(await endsOf(service, others), { completed: 8 });
      assert.notEqual(group.read("memory.failcnt").trim(), "0");
      assert.equal(await machine.show("MainPID"), pid);
      assert.equal(await machine.show("NRestarts"), "0");
      assert.equal(machine.childOutside(pid, COMMAND_HOST), host);
    },
  );
}

/** A task of half a mebibyte. */
const LARGE = { type: "echo", input: "x".repeat(MIB_BYTES / 2) };

async function comesBackAfterOom(t: TestContext, service: Service): Promise<void> {
  await t.test(
    "a daemon that the kernel kills for want of memory is started again, and loses no acknowledged task",
    { skip: noControlGroup("memory") },
    async (t) => {
      const { machine, key } = service;
      const pid = await machine.show("MainPID");
      const group = newControlGroup(t, "memory");
      group.set("memory.limit_in_bytes", String(16 * MIB_BYTES));
      group.set("cgroup.procs", String(machine.outside(pid)));

      const ids = [...(await post(service, { type: "short", count: 4 }))];
      await until(
        async () => {
          const request = { path: "/v1/tasks/task_post", key, body: [LARGE] };
          const answer = await machine.tryCall([request]);
          // A request without a response promises nothing.
          if (answer === null) return true;
          ids.push(...answer.flatMap(({ tasks }) => tasks.map(({ id }) => id)));
          return undefined;
        },
        () => "it was not killed",
      );
      await machine.untilShown("NRestarts", (value) => value === "1");
      await machine.untilShown("ActiveState", (value) => value === "active");

      assert.notEqual(await machine.show("MainPID"), pid);
      assert.notEqual(group.read("memory.failcnt").trim(), "0");
      assert.deepEqual(await endsOf(service, ids), { completed: ids.length });
    },
  );
}

async function opensNoDebugger(t: TestContext, service: Service): Promise<void> {
  await t.test("SIGUSR1 from systemd opens no debugger", async () => {
    const { machine } = service;
    const pid = await machine.show("MainPID");
    await machine.does("systemctl", "kill", "--kill-whom=main", "--signal=USR1", "postbackd");
    const ids = await post(service, { type: "echo", count: 1 });

    assert.deepEqual(await endsOf(service, ids), { completed: 1 });
    assert.equal(await machine.show("MainPID"), pid);
    assert.doesNotMatch(await logOf(machine), /Debugger listening/);
  });
}

async function servesWithoutNetlink(
  t: TestContext,
  service: Service,
  disk: MachineDisk,
): Promise<void> {
  await t.test(
    "a drop-in without AF_NETLINK is logged, and tasks are accepted and run",
    async () => {
      const { machine } = service;
      const families = "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX";
      await override(machine, disk, "RestrictAddressFamilies=", families);
      await machine.does("systemctl", "restart", "postbackd");
      const ids = await post(service, { type: "short", count: 4 });

      assert.deepEqual(await endsOf(service, ids), { completed: 4 });
      await untilLogged(machine, "a list of this machine's own addresses cannot be read");
      await override(machine, disk);
    },
  );
}

async function makesBackups(t: TestContext, service: Service, disk: MachineDisk): Promise<void> {
  const sandboxes = [
    { name: "the unit's sandbox", lines: [], niceness: 5 },
    { name: "one without setpriority", lines: ["SystemCallFilter=~setpriority"], niceness: 0 },
  ];
  for (const { name, lines, niceness } of sandboxes) {
    await t.test(`a backup is made in ${name}`, async () => {
      const { machine } = service;
      // ExecStartPost has the daemon's sandbox, and its failure ends the start.
      await override(
        machine,
        disk,
        `ExecStartPost=sh -c 'test "$$(nice -n 5 nice)" = ${niceness}'`,
        `ExecStartPost=${PROGRAM} backup create ${DATA_FOLDER}/copy.db`,
        ...lines,
      );
      await machine.does("systemctl", "restart", "postbackd");

      await machine.does(PROGRAM, "backup", "check", `${DATA_FOLDER}/copy.db`);
      await machine.does("rm", `${DATA_FOLDER}/copy.db`, `${DATA_FOLDER}/copy.db.json`);
      await override(machine, disk);
    });
  }
}

async function isRestartedWhenBlocked(
  t: TestContext,
  service: Service,
  disk: MachineDisk,
): Promise<void> {
  await t.test(
    "one whose main thread is stuck, while its others live, is ended by the watchdog",
    { skip: noControlGroup("freezer") },
    async (t) => {
      const { machine } = service;
      await override(machine, disk, "WatchdogSec=10", "LimitCORE=0");
      await machine.does("systemctl", "restart", "postbackd");
      const ids = await post(service, { type: "short", count: 8 });
      const pid = await machine.show("MainPID");
      const group = newControlGroup(t, "freezer");
      // The first thread of a process has its number, and alone is moved.
      group.set("tasks", String(machine.outside(pid)));
      group.set("freezer.state", "FROZEN");
      await untilLogged(machine, "Watchdog timeout");
      // A thread that is frozen cannot even die.
      group.set("freezer.state", "THAWED");
      await machine.untilShown("MainPID", (value) => value !== pid && value !== "0");
      await machine.untilShown("ActiveState", (value) => value === "active");

      assert.deepEqual(await endsOf(service, ids), { completed: 8 });
      await override(machine, disk);
    },
  );
}
