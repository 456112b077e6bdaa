import type { RequestListener, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import type { H3 } from "h3";
import { toNodeHandler } from "h3/node";
import { listen, type Listener } from "listhen";

import { systemClock } from "../domain/clock.ts";
import { IdGenerator } from "../domain/id.ts";
import { StatusError } from "../domain/status.ts";
import { toRawResponse } from "./respond.ts";

/** A server that listens. */
export interface HttpServer {
  readonly url: string;
  readonly port: number;
  /** Accepts no more connections; settles when the requests under way are answered. */
  close(): Promise<void>;
}

/** The address cannot be listened on: taken, not this machine's, or not permitted. */
export class ListenError extends Error {
  override readonly name = "ListenError" as const;
}

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const TIMEOUT_CHECK_MS = 5_000;
// Longer than the idle time of common proxies and clients, which would otherwise meet a connection that is being closed.
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
const CONNECTIONS_MAX = 4096;
const HEADERS_COUNT_MAX = 100;
// A free port is looked for and then listened on: in between somebody else may take it.
const RANDOM_PORT_TRIES = 5;

/** Serves the app; port 0 picks a free one. Throws {@link ListenError} when it cannot listen there. */
export async function openServer(
  app: H3,
  address: { readonly host: string; readonly port: number },
): Promise<HttpServer> {
  const listener = await listenOn(app, address);
  const server = listener.server as Server;
  harden(server);
  const { port } = listener.address;
  const host = address.host.includes(":") ? `[${address.host}]` : address.host;
  return {
    url: `http://${host}:${port}`,
    port,
    close: () => listener.close(),
  };
}

async function listenOn(
  app: H3,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<Listener> {
  const listener = toListener(app);
  for (let triesLeft = port === 0 ? RANDOM_PORT_TRIES : 1; ; triesLeft--) {
    try {
      const opened = await listen(listener, {
        ...QUIET,
        hostname: host,
        // To listhen port 0 means 3000.
        port: port === 0 ? { random: true, host } : { port, host },
        // It warns on the console when a loopback address is called public.
        public: !LOOPBACK_NAMES.has(host),
      });
      if (port === 0 || opened.address.port === port) return opened;
      // It passes over ports that browsers refuse to visit, such as 6000, and takes 3000 instead.
      await opened.close();
      throw new Error("browsers refuse to connect to this port");
    } catch (error) {
      if (triesLeft > 1) continue;
      const reason = error instanceof Error ? error.message : String(error);
      const message = `cannot listen on ${host} port ${port}: ${reason}; choose another with --host and --port`;
      throw new ListenError(message, { cause: error });
    }
  }
}

/**
 * The app as a listener that cannot throw. To srvx every request is a URL, and it throws, outside of
 * every handler, when host and path make none, as `Host: a:99999` does: one request would end the
 * process. So it is given a host that is fine, and a target that begins with a slash.
 */
function toListener(app: H3): RequestListener {
  const handle = toNodeHandler(app);
  return (request, response) => {
    request.headers.host = "localhost";
    request.url = toOriginForm(request.url ?? "");
    void handle(request, response);
  };
}

// RFC 9112 §3.2.2: the absolute form is to be taken too. What else there is names nothing here.
function toOriginForm(target: string): string {
  if (target.startsWith("/")) return target;
  const url = /^https?:/i.test(target) ? URL.parse(target) : null;
  return url === null ? "/*" : url.pathname + url.search;
}

// listhen greets, opens browsers, copies to the clipboard and ends the process on signals unless told not to.
const QUIET = {
  showURL: false,
  clipboard: false,
  open: false,
  qr: false,
  tunnel: false,
  autoClose: false,
  isTest: false,
  // Production: a port that is taken is refused instead of exchanged for the next free one.
  isProd: true,
};

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "::1"]);

function harden(server: Server): void {
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS;
  server.maxConnections = CONNECTIONS_MAX;
  server.maxHeadersCount = HEADERS_COUNT_MAX;
  // Options of createServer, which listhen calls. Without a Host, Node's own answer would have no
  // body: the app's has. The interval, else 30 s, is read when listening begins: it is told so again.
  Object.assign(server, {
    requireHostHeader: false,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
  });
  server.emit("listening");
  // RFC 9110 §10.1.1 lets a server ignore expectations it does not know; Node answers without a body.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
  refuseGarbage(server);
}

// What never became a request is answered in the contract's shape too, and its connection closed.
// Answers to what came before it go first: a client would take this one for theirs.
function refuseGarbage(server: Server): void {
  const lastAnswers = new WeakMap<Duplex, ServerResponse>();
  server.prependListener("request", ({ socket }, response) => lastAnswers.set(socket, response));
  server.on("clientError", (error, socket) => {
    const last = lastAnswers.get(socket);
    if (last?.req.complete && !last.writableFinished) {
      last.once("close", () => answerGarbage(error, socket));
    } else if (last?.req.complete === false && last.socket === null) {
      // The last request itself is broken, and it is answered already or waits behind one that is not.
      socket.destroy();
    } else answerGarbage(error, socket);
  });
}

const ids = new IdGenerator();

function answerGarbage(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const details = [{ pointer: "", detail: GARBAGE[error.code ?? ""] ?? NO_REQUEST }];
  const text = toRawResponse(new StatusError(40000, { details }), ids.next(systemClock.now()));
  // Not left half open: who never closes it in turn would hold one of the connections there are.
  socket.end(text, () => socket.destroy());
}

const NO_REQUEST = "This is not an HTTP/1.1 request that can be read.";
const GARBAGE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "The request's headers are too large.",
  ERR_HTTP_REQUEST_TIMEOUT: "The request took too long to arrive.",
};
