import assert from "node:assert/strict";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { ROOT } from "../../scripts/manifest.ts";
import { checkReceiver, startDaemon, type StartedReceiver } from "../../src/testing/testing.ts";
import { temporaryFolder } from "../helpers/program.ts";
import {
  GO,
  type Language,
  PHP,
  PYTHON,
  TYPESCRIPT,
  reasonToSkip,
  startReceiverProcess,
} from "../receivers/receiver-process.ts";
import { findRuntime } from "../runtimes/runtimes.ts";

const FIXTURES = fileURLToPath(new URL("../fixtures/frameworks", import.meta.url));

type Command = readonly [string, ...string[]];

/** Drives a receiver through everything; it is a process of its own each time. */
async function assertCopes(
  t: TestContext,
  command: Command,
  effectsOf: (receiver: Awaited<ReturnType<typeof startReceiverProcess>>) => unknown,
): Promise<void> {
  await using daemon = await startDaemon();

  const wrong = await checkReceiver(daemon, {
    async start(secret): Promise<StartedReceiver> {
      const receiver = await startReceiverProcess(t, { command, secrets: [secret] });
      return { url: `${receiver.url}/postback`, effects: () => effectsOf(receiver) };
    },
    task: (version) => ({ input: { order: "A17", version } }),
  });

  assert.deepEqual(wrong, []);
}

const askEffects = async ({ url }: { readonly url: string }): Promise<unknown> =>
  (await fetch(`${url}/effects`)).json();

for (const framework of ["express", "hono", "fastify"]) {
  test(`a receiver with ${framework} copes with all that happens to webhooks`, async (t) => {
    const manifest = findRuntime(t, join(framework, "package.json"));
    if (manifest === null) return;
    const folder = temporaryFolder(t);
    cpSync(FIXTURES, folder, { recursive: true });
    const modules = join(folder, "node_modules");
    const home = join(modules, "postbackd");
    mkdirSync(home, { recursive: true });
    for (const name of [framework, "@hono"]) {
      symlinkSync(join(dirname(dirname(manifest)), name), join(modules, name));
    }
    symlinkSync(join(ROOT, "src"), join(home, "src"));
    const exported = { type: "module", exports: { "./verify": "./src/verify.ts" } };
    writeFileSync(join(home, "package.json"), JSON.stringify(exported));

    await assertCopes(t, [process.execPath, join(folder, `${framework}.mjs`)], askEffects);
  });
}

const FLASK: Language = {
  name: "Flask",
  file: "test/fixtures/frameworks/flask_app.py",
  probe: ["/usr/bin/python3", "-c", "import flask"],
  command: () => ["/usr/bin/python3", join(FIXTURES, "flask_app.py")],
};

test(
  "a receiver with Flask copes with all that happens to webhooks",
  { skip: reasonToSkip(FLASK) },
  (t) => assertCopes(t, FLASK.command(""), askEffects),
);

for (const language of [TYPESCRIPT, PYTHON, GO, PHP]) {
  const { name } = language;
  test(
    `the receiver of the examples in ${name} copes with all that happens to webhooks`,
    { skip: reasonToSkip(language) },
    (t) =>
      assertCopes(t, language.command(temporaryFolder(t)), (receiver) => {
        const bodies = [...receiver.inbox()].filter(([file]) => file.endsWith(".postback"));
        return bodies
          .map(([, body]) => JSON.parse(body.toString()).tasks[0].result.version)
          .toSorted((one: number, other: number) => one - other);
      }),
  );
}
