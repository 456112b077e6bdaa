import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { test } from "node:test";

import { parseYaml } from "@redocly/openapi-core";
import { validate } from "dockerfile-utils";
import { z } from "zod";

import { ROOT } from "../../scripts/manifest.ts";
import { readDockerfile } from "./dockerfile.ts";

const DEPLOY = join(ROOT, "deploy");
const DOCKERFILE = join(DEPLOY, "Dockerfile");
const FILES = ["compose-file.yaml", "compose.yaml"];

const COMPOSE = z.object({
  services: z.record(
    z.string(),
    z.object({
      image: z.string(),
      build: z.object({ context: z.string(), dockerfile: z.string() }).optional(),
      volumes: z.array(z.string()).optional(),
    }),
  ),
  volumes: z.record(z.string(), z.unknown()),
});

/** The commands in the comment at the head of the file. */
function headerCommands(text: string): readonly string[] {
  const header = text.slice(0, text.search(/^[^#\n]/m));
  return [...header.matchAll(/^# {5}(.*)$/gm)].map(([, command = ""]) => command);
}

/** The command before the build and the context, by the header of the Dockerfile. */
function buildOrder(): { readonly first: string; readonly context: string } {
  const [line = ""] = headerCommands(readFileSync(DOCKERFILE, "utf8"));
  const [, first = "", context = ""] =
    /^(.*) && docker build -t postbackd -f deploy\/Dockerfile (\S+)$/.exec(line) ??
    assert.fail(`the header of the Dockerfile does not build it: ${line}`);
  return { first, context };
}

function composeFile(name: string) {
  const text = readFileSync(join(DEPLOY, name), "utf8");
  const { services, volumes } = COMPOSE.parse(parseYaml(text));
  const own = Object.entries(services).filter(([, { build }]) => build !== undefined);
  assert.ok(own.length > 0, `${name} builds no service`);
  return { text, volumes, own };
}

for (const name of FILES) {
  test(`${name} builds the Dockerfile in the folder where its ADD finds the archives`, () => {
    const { own } = composeFile(name);

    for (const [service, { build, image }] of own) {
      const context = resolve(DEPLOY, build?.context ?? "");
      assert.equal(relative(ROOT, context), buildOrder().context, service);
      assert.equal(resolve(context, build?.dockerfile ?? ""), DOCKERFILE, service);
      assert.equal(image, "postbackd", service);
    }
  });

  test(`the header of ${name} makes the archives, and names the file and its services`, () => {
    const { text, own } = composeFile(name);
    const commands = headerCommands(text);

    assert.equal(commands[0], buildOrder().first);
    const composed = commands.filter((command) => command.startsWith("docker compose "));
    assert.ok(composed.length >= 2, text);
    for (const command of composed) {
      assert.ok(command.startsWith(`docker compose -f deploy/${name} `), command);
      const [, service] = / exec (\S+) postbackd /.exec(command) ?? [];
      assert.ok(service === undefined || own.some(([each]) => each === service), command);
    }
  });

  test(`${name} mounts the data folder of the image alone`, () => {
    const { text, own, volumes } = composeFile(name);
    const stage = readDockerfile(DOCKERFILE, {}).at(-1);
    const last = (word: string) => stage?.instructions.findLast((one) => one.name === word)?.text;
    const data = last("VOLUME") ?? assert.fail("the Dockerfile has no VOLUME");

    assert.equal(last("WORKDIR"), data);
    for (const mount of own.flatMap(([, service]) => service.volumes ?? [])) {
      const [volume = "", target] = mount.split(":");
      assert.equal(target, data, mount);
      assert.ok(Object.hasOwn(volumes, volume), mount);
    }
    // Also in comments, which a user may uncomment.
    const paths = [...text.matchAll(/(\/[\w./-]+)\/(?:postbackd\.toml:ro|copy\.db)/g)];
    assert.ok(paths.length > 0, text);
    for (const [path, folder] of paths) assert.equal(folder, data, path);
  });
}

test("compose-file.yaml keeps the data in a named volume", () => {
  const { own } = composeFile("compose-file.yaml");

  assert.deepEqual(
    own.map(([, { volumes }]) => volumes),
    [["data:/data"]],
  );
});

test("the linter finds nothing in the Dockerfile", () => {
  const text = readFileSync(join(ROOT, "deploy", "Dockerfile"), "utf8");
  assert.deepEqual(validate(text), []);
  // The linter reads it: a spoilt one has a finding.
  assert.notDeepEqual(validate(text.replace("COPY --from", "COPY --form")), []);
});
