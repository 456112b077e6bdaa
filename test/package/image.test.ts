import assert from "node:assert/strict";
import {
  chmodSync,
  cpSync,
  globSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { ROOT } from "../../scripts/manifest.ts";
import { makeArchive } from "../../scripts/package/packages.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { reasonToSkipMachine, runHere, type Envelope } from "../systemd/machine.ts";
import { readDockerfile, settingsOf, type ImageSettings, type Instruction } from "./dockerfile.ts";
import { testOrder } from "./packages.ts";

const SCRIPT = fileURLToPath(new URL("../fixtures/package/image.sh", import.meta.url));
const CLIENT = fileURLToPath(new URL("../fixtures/systemd/client.mjs", import.meta.url));
const SPACES = ["--mount", "--pid", "--net", "--ipc", "--uts"];
const UNSHARE = ["unshare", ...SPACES, "--fork", "--kill-child", "sh", SCRIPT] as const;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const STRANGER = "61234";
const DEBIAN_ARCH = process.arch === "x64" ? "amd64" : process.arch;

const skip = await reasonToSkipMachine();

interface Image {
  /** The files that it adds to Debian. */
  readonly layer: string;
  readonly settings: ImageSettings;
}

const order = testOrder();

/** Follows the Dockerfile without network: this machine's Debian has the certificates. */
async function buildImage(): Promise<Image> {
  const context = join(order.folder, "context");
  mkdirSync(context, { recursive: true });
  makeArchive({ ...order, folder: context });
  const stages = readDockerfile(join(ROOT, "deploy", "Dockerfile"), { TARGETARCH: DEBIAN_ARCH });
  const final = stages.at(-1) ?? assert.fail("the Dockerfile is empty");
  const source = stages.find(({ name }) => name === `archive-${DEBIAN_ARCH}`);
  assert.equal(stages.find(({ name }) => name === "archive")?.base, source?.name);
  const unpacked = join(order.folder, "archive");
  mkdirSync(unpacked);
  for (const { text } of source?.instructions ?? []) {
    const [archive = assert.fail(`nothing in the context is called ${text}`)] = globSync(
      join(context, text.split(" ")[0] ?? ""),
    );
    const { code, stderr } = await runHere(["tar", "-xzf", archive, "-C", unpacked]);
    assert.equal(code, 0, stderr);
  }
  const layer = join(order.folder, "layer");
  mkdirSync(join(layer, "etc"), { recursive: true });
  writeFileSync(join(layer, "etc", "passwd"), "root:x:0:0:root:/root:/bin/sh\n");
  writeFileSync(join(layer, "etc", "group"), "root:x:0:\n");
  mkdirSync(join(layer, "tmp"));
  chmodSync(join(layer, "tmp"), 0o1777);
  for (const instruction of final.instructions) await follow(instruction, { layer, unpacked });
  return { layer, settings: settingsOf(final) };
}

async function follow(
  { name, text }: Instruction,
  { layer, unpacked }: { readonly layer: string; readonly unpacked: string },
): Promise<void> {
  if (name === "RUN" && !text.startsWith("apt-get")) {
    const words = [layer, "rw", "-", "0", "/bin/sh", "-c", text];
    const { code, stderr } = await runHere([...UNSHARE, ...words]);
    assert.equal(code, 0, `${text}: ${stderr}`);
  }
  if (name === "COPY") {
    const [from, ...paths] = text.split(" ");
    assert.equal(from, "--from=archive");
    const target = paths.pop() ?? assert.fail(text);
    for (const file of paths.flatMap((path) => globSync(join(unpacked, path)))) {
      cpSync(file, join(layer, target, target.endsWith("/") ? basename(file) : ""));
    }
  }
}

let image: Promise<Image> | undefined;

interface Container {
  readonly program: Program;
  /** Runs a command inside, as `docker exec` does. */
  exec(command: readonly string[]): ReturnType<typeof runHere>;
  call(request: object): Promise<Envelope>;
  /** SIGTERM to its first process. */
  stop(): void;
}

interface Run {
  readonly user: string;
  /** In place of the command of the image. */
  readonly command?: readonly string[];
  /** `ro` is Docker's --read-only: the volume alone can be written. */
  readonly access: "ro" | "rw";
}

/** Runs the image on a new volume, which gets the mode of the image's folder as in Docker. */
async function run(t: TestContext, { user, command, access }: Run): Promise<Container> {
  const { layer, settings } = await (image ??= buildImage());
  const volume = temporaryFolder(t);
  chmodSync(volume, statSync(join(layer, settings.folder)).mode & 0o7777);
  const env = [
    "env",
    "-i",
    `PATH=${PATH}`,
    ...Object.entries(settings.env).map(([key, value]) => `${key}=${value}`),
  ];
  const program = startProgram(t, [...settings.entry, ...(command ?? settings.command)], {
    command: [...UNSHARE, layer, access, volume, user, ...env],
  });
  await program.ready;
  const first = readFileSync(`/proc/${program.pid}/task/${program.pid}/children`, "utf8").trim();
  const enter = ["nsenter", "--target", first] as const;
  return {
    program,
    exec: (command) =>
      runHere([
        ...([...enter, ...SPACES, `--setuid=${user}`, `--setgid=${user}`, "--"] as const),
        ...[...env, "sh", "-c", 'cd "$0" && exec "$@"', settings.folder, ...command],
      ]),
    async call(request) {
      const input = JSON.stringify([request]);
      const { code, stdout, stderr } = await runHere(
        [...enter, "--net", "--", process.execPath, CLIENT],
        { input },
      );
      assert.equal(code, 0, stderr);
      return (JSON.parse(stdout) as readonly [Envelope])[0];
    },
    stop: () => void process.kill(Number(first), "SIGTERM"),
  };
}

for (const { who, user } of [
  { who: "the user of the image", user: undefined },
  { who: "any other user (--user)", user: STRANGER },
]) {
  test(`the image serves read-only as ${who}`, { skip }, async (t) => {
    const { settings } = await (image ??= buildImage());
    const [own = ""] = settings.user.split(":");
    assert.notEqual(Number(own), 0);
    const container = await run(t, { user: user ?? own, access: "ro" });

    const health = await container.exec(settings.health);
    const create = "postbackd admin account create tester --json";
    const made = await container.exec(create.split(" "));
    const key = /pbd_live_\w+/.exec(made.stdout)?.[0] ?? assert.fail(made.stderr);
    const posted = await container.call({ path: "/v1/tasks/task_post", key, body: [{ input: 7 }] });
    const path = `/v1/tasks/task_get/${posted.tasks[0]?.id}`;
    const got = await container.call({ path, key, headers: { prefer: "wait=60" } });
    const written = await container.exec(["sh", "-c", "touch /etc/written"]);
    container.stop();

    assert.equal(health.code, 0, health.stdout + health.stderr);
    assert.equal(got.tasks[0]?.state, "completed");
    assert.match(written.stderr, /Read-only file system/);
    assert.deepEqual(await container.program.exit, { code: 0, signal: null });
  });
}

test(
  "the image runs a development daemon, which receives its own webhooks",
  { skip },
  async (t) => {
    const { settings } = await (image ??= buildImage());
    const [user = ""] = settings.user.split(":");
    const command = ["dev", "--clock", "manual"];
    const container = await run(t, { user, command, access: "rw" });
    const { key, inbox_url: inbox } = JSON.parse(container.program.stdout);

    const health = await container.exec(settings.health);
    const { tasks } = await container.call({
      path: "/v1/tasks/task_post",
      key,
      body: [{ input: 42, postback_url: inbox }],
    });
    const waited = await container.call({ path: `/dev/wait/${tasks[0]?.id}?for=delivered` });
    container.stop();

    assert.equal(health.code, 0, health.stdout + health.stderr);
    assert.equal(waited.status_code, 20000, JSON.stringify(waited));
    assert.deepEqual(await container.program.exit, { code: 0, signal: null });
  },
);
