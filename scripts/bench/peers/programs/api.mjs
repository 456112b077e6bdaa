import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

import { H3, HTTPError } from "h3";
import { toNodeHandler } from "h3/node";

/**
 * The API of every peer: it takes what postbackd's task_post takes of the bench, and answers in the same envelope once
 * `enqueue` has settled. Resolves to its port.
 */
export async function serveApi(key, enqueue) {
  const app = new H3();
  app.post("/v1/tasks/task_post", async (event) => {
    if (event.req.headers.get("authorization") !== `Bearer ${key}`)
      throw new HTTPError({ status: 401 });
    const posted = await event.req.json();
    const tasks = posted.map((task) => ({ id: newId(), ...task }));
    await enqueue(tasks);
    event.res.headers.set("content-type", "application/json");
    return envelopeText(tasks.map(({ id }) => ({ id, status_code: 20100 })));
  });
  const server = createServer(toNodeHandler(app)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}

/** The JSON around tasks in every answer and webhook. */
export function envelopeText(tasks) {
  const head = { status_code: 20000, tasks_count: tasks.length, tasks_error: 0 };
  return JSON.stringify({ ...head, tasks });
}

/** A UUIDv7: the receiver reads from it how old a task is. */
function newId() {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
