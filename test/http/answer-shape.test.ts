import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { fetchDocument, Judge, placedOperations, type Schema } from "./api-document.ts";

/** Every object with named members in a schema. */
function objectsIn(value: unknown): readonly object[] {
  if (typeof value !== "object" || value === null) return [];
  const own = "properties" in value && "type" in value ? [value] : [];
  return [...own, ...Object.values(value).flatMap(objectsIn)];
}

const isClosed = (schema: object): boolean =>
  "additionalProperties" in schema && schema.additionalProperties === false;

test("responses are open to later members, and bodies are closed", async (t) => {
  const { document } = await fetchDocument(await startTestDaemon(t));
  const operations = placedOperations(document);
  const answers = objectsIn(operations.map(({ responses }) => responses));
  const bodies = objectsIn(operations.map(({ requestBody }) => requestBody));

  assert(answers.length > 100 && bodies.length > 10);
  assert.deepEqual(answers.filter(isClosed), []);
  assert.deepEqual(
    bodies.filter((schema) => !isClosed(schema)),
    [],
  );
});

test("the data of an accepted task has the documented fields and types", async (t) => {
  const daemon = await startTestDaemon(t);
  const { document } = await fetchDocument(daemon);
  const shape = document.components.schemas["TaskData"];
  assert(shape !== undefined);
  const task = {
    ...{ type: "echo", tag: "order-17", priority: 9, input: [1.5] },
    start_at: "2026-01-31T10:00:00+01:00",
    postback_url: "https://example.com/done",
    pingback_url: "https://example.com/done?id=$id",
  };
  const named = Object.keys(Object(shape["properties"]));
  assert.deepEqual(new Set(named), new Set([...Object.keys(task), "marketplace"]));

  const judge = new Judge();
  for (const posted of [{}, { tag: null, priority: null }, task]) {
    const [accepted] = (await daemon.post(posted)).tasks;
    assert.equal(accepted?.status_code, 20100, JSON.stringify(accepted));
    judge.assertFits(shape, accepted.data);
  }
});

/** The schemas of a member of a task, in each part of a union that names its members. */
function membersOf(schema: Schema, name: string): readonly Schema[] {
  const { anyOf, properties } = schema as { anyOf?: readonly Schema[]; properties?: object };
  if (anyOf !== undefined) return anyOf.flatMap((each) => membersOf(each, name));
  const members = Object.entries(properties ?? {}) as [string, Schema][];
  return members.flatMap(([each, member]) => (each === name ? [member] : []));
}

test("the tag of a task is text in every response with the data of tasks", async (t) => {
  const { document } = await fetchDocument(await startTestDaemon(t));
  const found: string[] = [];
  for (const { operationId, responses } of placedOperations(document)) {
    const answer = responses["200"]?.content?.["application/json"]?.schema;
    if (answer === undefined) continue;
    const items = membersOf(answer, "tasks").flatMap(({ items = {} }) => [items as Schema]);
    const data = [...items, ...membersOf(answer, "task")].flatMap((each) =>
      membersOf(each, "data"),
    );
    if (data.length === 0) continue;
    const tags = data.flatMap((each) => membersOf(each, "tag"));
    assert.deepEqual(new Set(tags.map(({ type }) => type)), new Set(["string"]), operationId);
    found.push(operationId);
  }

  const tasks = "cancelTask getTask getTimeline listReadyTasks listTasks postTasks";
  assert.equal(found.toSorted().join(" "), tasks);
});
