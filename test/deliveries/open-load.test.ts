import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { test, type TestContext } from "node:test";

import { runOpenLoad, type OpenLoad } from "../../scripts/kit/open-load.ts";

async function listen(t: TestContext, server: Server): Promise<number> {
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  return address.port;
}

function load(port: number): OpenLoad {
  const from = Date.now();
  const requestAt = (_at: number, index: number): string =>
    `GET /${index} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
  return { port, connections: 4, perSecond: 100, from, to: from + 200, requestAt };
}

test("an open load sends each request once, and its latency counts from when it was to be sent", async (t) => {
  const urls: string[] = [];
  const server = createServer((request, response) => {
    urls.push(request.url ?? "");
    response.setHeader("content-length", 17).end('{"tasks_error":0}');
  });
  const port = await listen(t, server);

  const { sent, answers } = await runOpenLoad(load(port));

  assert.equal(sent, 20);
  assert.equal(answers.count, 20);
  assert.deepEqual(new Set(urls).size, 20);
});

test("an open load rejects at an answer that is not 200, and at one that refuses a task", async (t) => {
  const answers = [
    { status: 503, body: '{"tasks_error":0}' },
    { status: 200, body: '{"tasks_error":1}' },
  ];
  for (const { status, body } of answers) {
    const server = createServer((_request, response) => {
      response.writeHead(status, { "content-length": body.length }).end(body);
    });
    const port = await listen(t, server);

    await assert.rejects(
      runOpenLoad(load(port)),
      new RegExp(`the server answered HTTP/1.1 ${status}`),
    );
  }
});

test("an open load whose server falls behind the rate rejects", async (t) => {
  const port = await listen(
    t,
    createServer(() => {}),
  );

  await assert.rejects(runOpenLoad(load(port)), /the rate of 100 requests a second was not kept/);
});
