import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { isJsonObject } from "../../src/domain/json/json.ts";
import type { JsonObject } from "../../src/domain/json/json.ts";
import { startTestDaemon } from "../helpers/daemon.ts";

/** The document as a generator of typed clients walks it: by its references, schema by schema. */

async function fetchRaw(t: TestContext): Promise<JsonObject> {
  const { url } = await startTestDaemon(t);
  const value: unknown = await (await fetch(`${url}/openapi.json`)).json();
  return toObject(value);
}

function toObject(value: unknown): JsonObject {
  return isJsonObject(value) ? value : assert.fail(`${JSON.stringify(value)} is no object`);
}

/** What a reference stands for; itself where it is none. */
function resolved(value: unknown, document: JsonObject): JsonObject {
  const { $ref: ref } = toObject(value);
  if (ref === undefined) return toObject(value);
  assert(typeof ref === "string" && ref.startsWith("#/"), `${JSON.stringify(ref)} is elsewhere`);
  const steps = ref.slice(2).split("/");
  const found = steps.reduce<unknown>((at, step) => toObject(at)[decoded(step)], document);
  assert(found !== undefined, `${ref} stands for nothing`);
  return resolved(found, document);
}

function decoded(step: string): string {
  return step.replaceAll("~1", "/").replaceAll("~0", "~");
}

/** Every operation with its place. */
function operationsOf(document: JsonObject): readonly (readonly [where: string, JsonObject])[] {
  return Object.entries(toObject(document["paths"])).flatMap(([path, methods]) =>
    Object.entries(toObject(methods)).map(
      ([method, operation]) => [`${method} ${path}`, toObject(operation)] as const,
    ),
  );
}

/** The schemas of what an operation answers with 200, by media type. */
function answersOf(
  operation: JsonObject,
  document: JsonObject,
): readonly (readonly [string, JsonObject])[] {
  const answer = resolved(toObject(operation["responses"])["200"], document);
  return Object.entries(toObject(answer["content"])).map(
    ([media, content]) => [media, resolved(toObject(content)["schema"], document)] as const,
  );
}

/** The schemas that a member may have, as a client reads it: of a union, those of each of its parts. */
function memberOf(schema: unknown, name: string, document: JsonObject): readonly JsonObject[] {
  const { anyOf, properties } = resolved(schema, document);
  if (Array.isArray(anyOf)) return anyOf.flatMap((each) => memberOf(each, name, document));
  // An object without named members has any.
  if (properties === undefined) return [];
  const member = toObject(properties)[name];
  assert(member !== undefined, `${name} cannot be read: not every part of the union has it`);
  return [resolved(member, document)];
}

test("every operation has a type for its response, and below /v1 its members are named", async (t) => {
  const document = await fetchRaw(t);

  for (const [where, operation] of operationsOf(document)) {
    const answers = answersOf(operation, document);
    assert(answers.length > 0, where);
    for (const [media, { type, properties, required }] of answers) {
      assert(type === "object" || media !== "application/json", where);
      if (media !== "application/json" || !where.includes(" /v1/")) continue;
      assert("status_code" in toObject(properties), where);
      assert(Array.isArray(required) && required.includes("status_code"), where);
    }
  }
});

test("a generated client reads the tag of a task as text in every response with tasks", async (t) => {
  const document = await fetchRaw(t);
  const read: string[] = [];
  for (const [where, operation] of operationsOf(document)) {
    for (const [, answer] of answersOf(operation, document)) {
      const { tasks, task = null } = toObject(answer["properties"] ?? {});
      // Elsewhere `tasks` are numbers of tasks.
      const item = tasks === undefined ? task : resolved(tasks, document)["items"];
      if (!isJsonObject(item)) continue;
      const shown = resolved(item, document);
      if (!("data" in toObject(shown["properties"]))) continue;
      const tags = memberOf(shown, "data", document).flatMap((data) =>
        memberOf(data, "tag", document),
      );

      assert.deepEqual(
        tags.map(({ type }) => type),
        ["string"],
        where,
      );
      read.push(where);
    }
  }

  assert.deepEqual(read.toSorted(), [
    "get /v1/tasks",
    "get /v1/tasks/task_get/{id}",
    "get /v1/tasks/tasks_ready",
    "get /v1/tasks/timeline/{id}",
    "post /v1/tasks/task_cancel/{id}",
    "post /v1/tasks/task_post",
  ]);
});
