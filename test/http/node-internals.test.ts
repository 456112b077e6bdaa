import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { createServer, request, type IncomingMessage } from "node:http";
import { test, type TestContext } from "node:test";

import { checkInternals, dropRest, sendingOf } from "../../src/node-internals.ts";

async function listening(t: TestContext) {
  const server = createServer();
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return { server, port: address.port };
}

test("this version of Node has all internals that a server uses", async (t) => {
  const { server, port } = await listening(t);
  checkInternals(server);

  const client = request({ port, host: "127.0.0.1", method: "POST" });
  client.on("error", () => {});
  t.after(() => client.destroy());
  client.write("a");
  const [message] = (await once(server, "request")) as [IncomingMessage];
  dropRest(message.socket);

  assert.equal(Reflect.get(message.socket, "parser")[3], null);
  assert.deepEqual(sendingOf(message.socket), { taken: 0, unsent: 0 });
});

test("the check of a server without the internals throws their names", () => {
  assert.throws(
    () => checkInternals(createServer()),
    /no _handle\.listen, _handle\.writeQueueSize/,
  );
});

test("a parser that drops the rest of a body is restored at the close of its connection", () => {
  const parserOnBody = (): void => {};
  const parser: Record<number, unknown> = { 3: parserOnBody };
  const socket = Object.assign(new EventEmitter(), { parser });

  dropRest(socket);
  dropRest(socket);
  assert.equal(parser[3], null);
  socket.emit("close");
  assert.equal(parser[3], parserOnBody);
});

test("a parser with another structure stays unchanged", () => {
  const other = (): void => {};
  for (const parser of [null, {}, { 3: other }, { 3: "parserOnBody" }]) {
    const before = { ...parser };
    dropRest(Object.assign(new EventEmitter(), { parser }));
    assert.deepEqual({ ...parser }, before);
  }
  dropRest(new EventEmitter());
});
