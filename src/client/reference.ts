import type { Answers, Bodies } from "./api.ts";
import { ownFields, type OwnFields } from "./own-fields.ts";
import { isObject, isText, listOf } from "./shape.ts";
import type { CallOptions, Transport } from "./transport.ts";

export type Marketplace = Answers["GET /v1/appendix/marketplaces"]["marketplaces"][number];
export type ServiceStatus = OwnFields<Answers["GET /v1/appendix/status"]>;
export type StatusCodeRow = Answers["GET /v1/appendix/status_codes"]["status_codes"][number];
export type AccessRequest = Bodies["POST /v1/access_requests"] & CallOptions;

/** The daemon's answers to everybody. */
export interface Reference {
  /** The codes that a task's `marketplace` may have. */
  marketplaces(options?: CallOptions): Promise<readonly Marketplace[]>;
  /** How well the service does, in words. */
  status(options?: CallOptions): Promise<ServiceStatus>;
  /** Every code there is, with its message and HTTP status. */
  statusCodes(options?: CallOptions): Promise<readonly StatusCodeRow[]>;
  /** The API's document, OpenAPI 3.1. */
  openApi(options?: CallOptions): Promise<Answers["GET /openapi.json"]>;
  /** Resolves where the daemon runs. */
  live(options?: CallOptions): Promise<Answers["GET /livez"]>;
  /** Resolves where it takes requests. */
  ready(options?: CallOptions): Promise<Answers["GET /readyz"]>;
  /** Asks the operator for an account, and answers the request's id; never repeated by itself. */
  requestAccess(request: AccessRequest): Promise<string>;
}

const MARKETPLACES = { marketplaces: listOf(isObject) };
const STATUS_CODES = { status_codes: listOf(isObject) };
const DOCUMENT = { openapi: isText };
const HEALTH = { status: isText };
const REQUEST_ID = { request_id: isText };

export function referenceOf(transport: Transport): Reference {
  return {
    marketplaces: async ({ signal } = {}) =>
      (await transport.call("GET /v1/appendix/marketplaces", { shape: MARKETPLACES, signal }))
        .marketplaces,
    status: async ({ signal } = {}) =>
      ownFields(await transport.call("GET /v1/appendix/status", { signal })),
    statusCodes: async ({ signal } = {}) =>
      (await transport.call("GET /v1/appendix/status_codes", { shape: STATUS_CODES, signal }))
        .status_codes,
    openApi: ({ signal } = {}) => transport.call("GET /openapi.json", { shape: DOCUMENT, signal }),
    live: ({ signal } = {}) => transport.call("GET /livez", { shape: HEALTH, signal }),
    ready: ({ signal } = {}) => transport.call("GET /readyz", { shape: HEALTH, signal }),
    requestAccess: async ({ signal, ...body }) =>
      (await transport.call("POST /v1/access_requests", { body, shape: REQUEST_ID, signal }))
        .request_id,
  };
}
