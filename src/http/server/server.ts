import { once } from "node:events";
import type { RequestListener, Server } from "node:http";
import { createServer, type Server as TlsServer } from "node:https";

import type { H3 } from "h3";
import { toNodeHandler } from "h3/node";
import { listen } from "listhen";

import { systemClock } from "../../domain/clock/clock.ts";
import type { ResponseHeaders } from "../../domain/status.ts";
import { checkInternals, lengthenQueue } from "../../node-internals.ts";
import {
  type ClientConnection,
  ConnectionPlaces,
  type ShortageOutcome,
  placeConnections,
} from "../admission/connections.ts";
import {
  ACCEPT_QUEUE_MAX,
  KEEP_ALIVE_TIMEOUT_MS,
  HEADERS_COUNT_MAX,
  TIMEOUT_CHECK_MS_MAX,
} from "../admission/limits.ts";
import { Arrivals, takeTurns } from "../admission/turns.ts";
import {
  type Connections,
  cutOffSlow,
  followConnections,
  lingerAfterRefusals,
  refuseGarbage,
} from "./closing.ts";
import { contextOptions, toListenError, type TlsPair } from "./listen.ts";

export interface HttpServer extends Connections {
  readonly url: string;
  readonly port: number;
  /**
   * New connections get this certificate, old ones keep theirs. Throws an Error, and keeps the old pair, where the
   * new one cannot be served or the server does not do HTTPS.
   */
  reloadTls(pair: TlsPair): void;
}

export interface ServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Null serves plain HTTP. */
  readonly tls: TlsPair | null;
  readonly limits: ConnectionLimits;
  /** Whether a peer is a proxy for many clients; no peer is unless given. */
  readonly isProxy?: (address: string) => boolean;
  /** Notified of each connection; the server's own unless given. */
  readonly arrivals?: Arrivals;
  /** Headers of responses to bytes that are not a request. The app adds headers to all other responses. */
  readonly headers?: ResponseHeaders;
  /** Called when places for connections run out. */
  readonly onShortage?: (what: ShortageOutcome) => void;
}

/** The bounds of connections; config/setting.ts has the defaults. */
interface ConnectionLimits {
  readonly connections: number;
  /** For a request's headers, and for a TLS handshake. */
  readonly headerTimeoutMs: number;
  /** For a whole request, body included. */
  readonly requestTimeoutMs: number;
  /** For a response that its client reads too slowly or not at all. */
  readonly sendTimeoutMs: number;
}

// Node takes a longer timeout modulo 32 bits.
const TIMEOUT_MS_MAX = 2_147_483_647;
// The search finds a free port, and then listens on it: in between some other program may take it.
const RANDOM_PORT_TRIES = 5;

/**
 * Serves the app over HTTP, or over HTTPS with a certificate. Rejects with a ListenError if it cannot listen there.
 */
export async function openServer(app: H3, options: ServerOptions): Promise<HttpServer> {
  const { tls, host, arrivals = new Arrivals() } = options;
  const listener = takeTurns(toListener(app), { arrivals });
  const opening = { ...options, arrivals };
  const server = await (tls === null
    ? openPlain(listener, opening)
    : openTls(listener, opening, tls));
  checkInternals(server);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it listens on no port");
  const { port } = address;
  return {
    url: `${tls === null ? "http" : "https"}://${urlHost(host)}:${port}`,
    port,
    reloadTls(pair) {
      if ("setSecureContext" in server) server.setSecureContext(contextOptions(pair));
      else throw new Error("plain HTTP is served without a certificate");
    },
    ...followConnections(server),
  };
}

type Opening = ServerOptions & { readonly arrivals: Arrivals };

async function openPlain(listener: RequestListener, options: Opening): Promise<Server> {
  const server = await listenPlain(listener, options);
  lengthenQueue(server, ACCEPT_QUEUE_MAX);
  harden(server, options);
  // Node reads the interval of its checks when listening begins, so the event is sent again.
  server.emit("listening");
  return server;
}

/**
 * Serves TLS 1.2 or newer and HTTP/1.1 only. A handshake that fails, or takes longer than the headers may, ends its
 * connection without a response.
 *
 * Does without listhen, which serves HTTPS badly: it takes neither a least TLS version nor a time for handshakes,
 * takes a PEM text that begins with a remark for a path, and breaks off the requests under way when it closes
 * (http-shutdown takes the TCP connection below TLS for idle).
 */
async function openTls(
  listener: RequestListener,
  options: Opening,
  pair: TlsPair,
): Promise<TlsServer> {
  const { host, port, limits } = options;
  const handshakeTimeout = Math.min(limits.headerTimeoutMs, TIMEOUT_MS_MAX);
  const tls = { ...contextOptions(pair), ALPNProtocols: ["http/1.1"], handshakeTimeout };
  const server = createServer(tls, listener);
  // Node emits clientError after a failed handshake; without keys no response can be sent.
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  harden(server, options);
  try {
    const listening = once(server, "listening");
    server.listen(port, host);
    await listening;
    lengthenQueue(server, ACCEPT_QUEUE_MAX);
  } catch (error) {
    throw toListenError(error, { host, port });
  }
  return server;
}

function urlHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

async function listenPlain(
  listener: RequestListener,
  { host, port }: ServerOptions,
): Promise<Server> {
  for (let triesLeft = port === 0 ? RANDOM_PORT_TRIES : 1; ; triesLeft--) {
    try {
      const opened = await listen(listener, {
        ...QUIET,
        hostname: host,
        // For listhen, port 0 means 3000.
        port: port === 0 ? { random: true, host } : { port, host },
        // It warns on the console when a loopback address is called public.
        public: !LOOPBACK_NAMES.has(host),
      });
      // Asked for HTTP, it gives a server of node:http.
      if (port === 0 || opened.address.port === port) return opened.server as Server;
      // It passes over ports that browsers refuse to visit, such as 6000, and takes 3000 instead.
      await opened.close();
      throw new Error("browsers refuse to connect to this port");
    } catch (error) {
      if (triesLeft <= 1) throw toListenError(error, { host, port });
    }
  }
}

/**
 * The app as a listener that cannot throw. srvx parses every request as a URL, and throws, outside of every handler,
 * when host and path make none, as `Host: a:99999` does: one request would end the process. So it gets a valid host,
 * and a target that begins with a slash.
 */
function toListener(app: H3): RequestListener {
  const handle = toNodeHandler(app);
  return (request, response) => {
    request.headers.host = "localhost";
    request.url = toOriginForm(request.url ?? "");
    void handle(request, response);
  };
}

// RFC 9112 §3.2.2: the absolute form must be taken too. Every other form names nothing here.
function toOriginForm(target: string): string {
  // A URL parser reads a backslash as a slash, a proxy that decides by the path does not.
  if (target.startsWith("/")) return target.replaceAll("\\", "%5C");
  const url = /^https?:/i.test(target) ? URL.parse(target) : null;
  return url === null ? "/*" : url.pathname + url.search;
}

// listhen prints a greeting, opens browsers, copies to the clipboard and ends the process on signals unless disabled.
const QUIET = {
  showURL: false,
  clipboard: false,
  open: false,
  qr: false,
  tunnel: false,
  autoClose: false,
  isTest: false,
  // Production: a port that is taken is refused instead of replaced by the next free one.
  isProd: true,
};

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "::1"]);

function harden(server: Server, options: Opening): void {
  const { limits, arrivals, isProxy = () => false, onShortage = () => {} } = options;
  const requestTimeout = Math.min(limits.requestTimeoutMs, TIMEOUT_MS_MAX);
  // Node swaps the two where a whole request has less time than its headers.
  const headersTimeout = Math.min(limits.headerTimeoutMs, requestTimeout);
  server.headersTimeout = headersTimeout;
  server.requestTimeout = requestTimeout;
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS;
  server.maxHeadersCount = HEADERS_COUNT_MAX;
  // These are options of createServer, which listhen calls. Without a Host, Node's own answer would have no body: the
  // app's has one.
  Object.assign(server, {
    requireHostHeader: false,
    connectionsCheckingInterval: Math.min(TIMEOUT_CHECK_MS_MAX, headersTimeout),
  });
  // RFC 9110 §10.1.1 lets a server ignore expectations that it does not know; Node answers them without a body.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
  refuseGarbage(server, options.headers ?? {});
  lingerAfterRefusals(server);
  arrivals.follow(server);
  const { connections, sendTimeoutMs } = limits;
  const now = (): number => systemClock.monotonic();
  const places = new ConnectionPlaces<ClientConnection>({ connections, now, onShortage });
  placeConnections(server, { places, isProxy, now });
  cutOffSlow(server, { places, sendTimeoutMs });
}
