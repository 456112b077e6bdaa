import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

import { messageOf } from "../../domain/message-of.ts";
import { checkAddress, ListenError } from "../server/listen-error.ts";
import { CONTENT_TYPES, formatOf, type MetricsFormat } from "./exposition.ts";

/** The server of `metrics.listen`. */
export interface MetricsServer {
  readonly url: string;
  /** Lets go of the port and of every connection. Safe to call twice. */
  close(): Promise<void>;
}

export interface MetricsServerOptions {
  /** `HOST:PORT`, as the setting has it; port 0 picks a free one. */
  readonly listen: string;
  readonly metrics: (format: MetricsFormat) => Promise<string>;
  /** Is told of an answer that could not be made. */
  readonly failed: (error: unknown) => void;
}

// A Prometheus server keeps one connection; a few of them, and somebody who looks with curl.
const CONNECTIONS_MAX = 32;
const REQUEST_TIMEOUT_MS = 10_000;

/**
 * Serves `/metrics` over plain HTTP at an address of its own, for scrapers that have no credentials: whoever reaches it
 * may read it. Throws a {@link ListenError} when it cannot listen there.
 */
export async function openMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const { host, port } = hostAndPort(options.listen);
  const server = createServer((request, response) => void answer(request, response, options));
  server.maxConnections = CONNECTIONS_MAX;
  server.headersTimeout = REQUEST_TIMEOUT_MS;
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  try {
    server.listen({ host, port });
    await once(server, "listening");
  } catch (error) {
    throw toMetricsError(options.listen, error);
  }
  return { url: urlOf(server, host), close: () => close(server) };
}

/** As `checkAddress`, for the address of metrics. */
export async function checkMetricsAddress(listen: string): Promise<void> {
  try {
    await checkAddress(hostAndPort(listen));
  } catch (error) {
    throw toMetricsError(listen, error instanceof ListenError ? error.cause : error);
  }
}

function toMetricsError(listen: string, error: unknown): ListenError {
  const message = `cannot serve metrics on ${listen}: ${messageOf(error)}; choose another address with --metrics`;
  return new ListenError(message, { cause: error });
}

function hostAndPort(listen: string): { readonly host: string; readonly port: number } {
  const at = listen.lastIndexOf(":");
  const host = listen.slice(0, at).replace(/^\[(.*)\]$/, "$1");
  return { host, port: Number(listen.slice(at + 1)) };
}

function urlOf(server: Server, host: string): string {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it listens on no port");
  return `http://${host.includes(":") ? `[${host}]` : host}:${address.port}/metrics`;
}

async function answer(
  { method = "", url = "", headers }: IncomingMessage,
  response: ServerResponse,
  { metrics, failed }: MetricsServerOptions,
): Promise<void> {
  const [path] = url.split("?");
  if (path !== "/metrics") return end(response, 404, "There is only /metrics here.\n");
  if (method !== "GET" && method !== "HEAD") {
    response.setHeader("allow", "GET, HEAD");
    return end(response, 405, "Only GET and HEAD are answered here.\n");
  }
  try {
    const format = formatOf([headers.accept ?? ""]);
    const text = await metrics(format);
    response.setHeader("content-type", CONTENT_TYPES[format]);
    end(response, 200, text);
  } catch (error) {
    failed(error);
    end(response, 500, "The metrics cannot be read; the daemon's log tells why.\n");
  }
}

function end(response: ServerResponse, status: number, text: string): void {
  response.statusCode = status;
  if (!response.hasHeader("content-type")) {
    response.setHeader("content-type", "text/plain; charset=utf-8");
  }
  response.setHeader("content-length", Buffer.byteLength(text));
  // Node leaves out the body of an answer to HEAD.
  response.end(text);
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}
