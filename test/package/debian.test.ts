import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { version } from "../../scripts/manifest.ts";
import { makeDeb } from "../../scripts/package/packages.ts";
import { verifyPostback } from "../../src/verify.ts";
import { startProgram } from "../helpers/program.ts";
import { findProgram } from "../peers/peer-process.ts";
import { Machine, reasonToSkipMachine, newDisk, type MachineDisk } from "../systemd/machine.ts";
import { testOrder } from "./packages.ts";

const RECEIVER = fileURLToPath(new URL("../fixtures/package/receiver.mjs", import.meta.url));
const CONFIG_FILE = "/etc/postbackd/postbackd.toml";
const DATA = "/var/lib/postbackd";
const DATABASE = `${DATA}/postbackd.db`;
const FIRST = "/var/cache/first.deb";
const SECOND = "/var/cache/second.deb";

/** The dependencies of the package. */
const NEEDED = /^Package: (?:adduser|init-system-helpers|libc6|libgcc-s1|libstdc\+\+6)$/m;

const isDebian = [findProgram("dpkg-deb"), findProgram("adduser")].every((path) => path !== null);
const skip = isDebian ? await reasonToSkipMachine() : "this is no Debian: no dpkg-deb, no adduser";

interface Installed {
  readonly machine: Machine;
  readonly disk: MachineDisk;
  readonly key: string;
  readonly secret: string;
}

/** A machine with dpkg, the dependencies of the package, and two versions of it. */
async function boot(t: TestContext): Promise<{ machine: Machine; disk: MachineDisk }> {
  const order = testOrder();
  const disk = newDisk(t);
  const dpkg = join(disk.state, "var", "lib", "dpkg");
  for (const folder of ["info", "updates", "triggers"])
    mkdirSync(join(dpkg, folder), { recursive: true });
  const known = readFileSync("/var/lib/dpkg/status", "utf8").split("\n\n");
  const status = known.filter((stanza) => NEEDED.test(stanza)).map((stanza) => `${stanza}\n\n`);
  writeFileSync(join(dpkg, "status"), status.join(""));
  mkdirSync(join(disk.state, "usr"));
  mkdirSync(join(disk.state, "var", "cache"));
  copyFileSync(makeDeb(order), join(disk.state, FIRST));
  const later = { ...order, debVersion: `${version}+later` };
  copyFileSync(makeDeb(later), join(disk.state, SECOND));
  const machine = await Machine.boot(disk, order.executable);
  // This file of an image forbids to start services.
  await machine.does("rm", "-f", "/usr/sbin/policy-rc.d");
  return { machine, disk };
}

test("the Debian package on a machine of its own", { skip }, async (t) => {
  const { machine, disk } = await boot(t);
  const start = performance.now();
  await isInstalled(t, machine);
  const installed = await isUsed(t, { machine, disk });
  const seconds = (performance.now() - start) / 1000;
  t.diagnostic(`from dpkg --install to a verified callback: ${seconds.toFixed(1)} s`);
  await isUpgraded(t, installed);
  await isRemoved(t, installed);
  await isPurged(t, installed);
  await doesWithoutSystemd(t, machine);
});

async function isInstalled(t: TestContext, machine: Machine): Promise<void> {
  await t.test("an installation starts and enables the service", async () => {
    await machine.does("dpkg", "--install", FIRST);

    assert.equal(await machine.show("ActiveState"), "active");
    assert.equal(await machine.does("systemctl", "is-enabled", "postbackd"), "enabled");
    // In Debian 12 the path begins with /lib, a link to /usr/lib.
    assert.match(
      await machine.show("FragmentPath"),
      /^(?:\/usr)?\/lib\/systemd\/system\/postbackd\.service$/,
    );
    assert.equal(await machine.does("postbackd", "--version"), version);
  });

  await t.test("the files have their owners and modes", async () => {
    const format = "%U:%G %a %n";
    const found = await machine.does("stat", "--format", format, DATA, DATABASE, CONFIG_FILE);

    assert.deepEqual(found.split("\n"), [
      `postbackd:postbackd 700 ${DATA}`,
      `postbackd:postbackd 600 ${DATABASE}`,
      `root:postbackd 640 ${CONFIG_FILE}`,
    ]);
    assert.equal(await machine.does("dpkg", "--verify", "postbackd"), "");
  });

  await t.test("the package has a completion for bash and a manual page", async () => {
    const completion = "/usr/share/bash-completion/completions/postbackd";
    const load = `. ${completion} && complete -p postbackd`;
    const page = await machine.does("zcat", "/usr/share/man/man1/postbackd.1.gz");

    assert.match(await machine.does("bash", "-c", load), /postbackd$/);
    assert.match(page, /^\.TH POSTBACKD 1/m);
  });
}

async function isUsed(
  t: TestContext,
  { machine, disk }: Pick<Installed, "machine" | "disk">,
): Promise<Installed> {
  const file = join(disk.state, CONFIG_FILE);
  const sample = readFileSync(file, "utf8");
  const edited = sample.replace(/^#allow = .*$/m, 'allow = ["127.0.0.1"]');
  assert.notEqual(edited, sample);
  writeFileSync(file, edited);
  await machine.does("systemctl", "restart", "postbackd");
  const admin = async (...args: string[]) => machine.does("postbackd", "admin", ...args, "--json");
  const key = /pbd_live_\w+/.exec(await admin("account", "create", "tester"))?.[0] ?? "none";
  const secret = /whsec_[\w+/=]+/.exec(await admin("secret", "show", "tester"))?.[0] ?? "none";
  const installed = { machine, disk, key, secret };

  await t.test("a task ends with a callback whose signature is valid", async (t) => {
    const { headers, body } = await callback(t, installed);

    const signature = headers["x-signature"] ?? "";
    assert.ok(await verifyPostback(new TextEncoder().encode(body), signature, [secret]));
    assert.match(body, /"state":"completed"/);
  });
  return installed;
}

interface Callback {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Posts a task, and waits for its webhook. */
async function callback(t: TestContext, { machine, key }: Installed): Promise<Callback> {
  const command = [...machine.network, process.execPath] as const;
  const receiver = startProgram(t, [RECEIVER], { command });
  await receiver.says("listening");
  const body = [{ input: "hello", postback_url: "http://127.0.0.1:9100/done" }];
  const [answer] = await machine.call([{ path: "/v1/tasks/task_post", key, body }]);
  assert.equal(answer?.tasks[0]?.status_code, 20100);
  await receiver.exit;
  return JSON.parse(receiver.stdout) as Callback;
}

async function isUpgraded(t: TestContext, installed: Installed): Promise<void> {
  const { machine, disk } = installed;

  await t.test("an upgrade restarts the service, and keeps configuration and data", async (t) => {
    const pid = await machine.show("MainPID");
    await machine.does("dpkg", "--install", SECOND);

    assert.notEqual(await machine.show("MainPID"), pid);
    assert.equal(await machine.show("ActiveState"), "active");
    assert.match(
      readFileSync(join(disk.state, CONFIG_FILE), "utf8"),
      /^allow = \["127\.0\.0\.1"\]$/m,
    );
    assert.match((await callback(t, installed)).body, /"result":"hello"/);
  });

  await t.test(
    "an upgrade keeps a stopped service stopped, and a disabled one disabled",
    async () => {
      await machine.does("systemctl", "stop", "postbackd");
      await machine.does("dpkg", "--install", SECOND);
      assert.equal(await machine.show("ActiveState"), "inactive");

      await machine.does("systemctl", "disable", "postbackd");
      await machine.does("dpkg", "--install", SECOND);
      assert.equal(await machine.show("ActiveState"), "inactive");
      assert.equal(
        (await machine.run("systemctl", "is-enabled", "postbackd")).stdout,
        "disabled\n",
      );
      await machine.does("systemctl", "enable", "--now", "postbackd");
    },
  );
}

async function isRemoved(t: TestContext, installed: Installed): Promise<void> {
  const { machine } = installed;

  await t.test("a removal stops the service, and keeps configuration and data", async () => {
    await machine.does("dpkg", "--remove", "postbackd");

    assert.equal(await machine.show("ActiveState"), "inactive");
    assert.notEqual((await machine.run("test", "-e", "/usr/bin/postbackd")).code, 0);
    await machine.does("test", "-s", CONFIG_FILE);
    await machine.does("test", "-s", DATABASE);
  });

  await t.test("an installation after a removal starts the service", async (t) => {
    await machine.does("dpkg", "--install", SECOND);
    await machine.untilShown("ActiveState", (value) => value === "active");

    assert.equal(await machine.does("systemctl", "is-enabled", "postbackd"), "enabled");
    assert.match((await callback(t, installed)).body, /"result":"hello"/);
  });
}

async function isPurged(t: TestContext, { machine }: Installed): Promise<void> {
  await t.test("a purge keeps the database and prints its folder", async () => {
    const { code, stderr } = await machine.run("dpkg", "--purge", "postbackd");

    assert.equal(code, 0, stderr);
    assert.ok(stderr.includes(DATA), stderr);
    assert.equal(await machine.does("stat", "--format", "%U %a", DATABASE), "postbackd 600");
    assert.notEqual((await machine.run("test", "-e", "/etc/postbackd")).code, 0);
  });
}

async function doesWithoutSystemd(t: TestContext, machine: Machine): Promise<void> {
  await t.test("the package without systemd and data leaves nothing after a purge", async () => {
    await machine.does("rm", "-r", DATA);
    const dpkg = async (...args: string[]) =>
      machine.does(
        ...(["unshare", "--mount", "sh", "-c"] as const),
        'mount -t tmpfs none /run/systemd && exec dpkg "$@"',
        ...["sh", ...args],
      );
    await dpkg("--install", FIRST);
    assert.equal(await machine.does("stat", "--format", "%U %a", DATA), "postbackd 700");
    assert.equal(await machine.does("postbackd", "--version"), version);
    await dpkg("--purge", "postbackd");

    assert.notEqual((await machine.run("test", "-e", DATA)).code, 0);
    assert.notEqual((await machine.run("getent", "passwd", "postbackd")).code, 0);
  });
}
