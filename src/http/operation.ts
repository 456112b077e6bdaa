import type { KeyHolder } from "../domain/credentials.ts";
import type { ResponseHeaders } from "../domain/status.ts";

/** What an operation is told about the request that calls it. */
export interface Call {
  /** The parts of the path that the operation's path names, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The time at which the request is judged. */
  readonly now: number;
}

/** A call that reads. */
export interface GetCall extends Call {
  readonly query: URLSearchParams;
  /** HEAD: answered like GET, without a body and without effect. */
  readonly isHead: boolean;
}

/** On whose behalf a call is. */
export interface OfAccount {
  readonly holder: KeyHolder;
}

/** What a client is answered; `text` is JSON. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers?: ResponseHeaders;
}

interface OperationBase {
  /** As h3 routes it; `:name` stands for a part of the path. */
  readonly path: string;
}

/** One method of one path: who may call it, whether it takes a body, and what it does. */
export type Operation =
  | (OperationBase & {
      readonly method: "GET";
      readonly access: "public";
      readonly handle: (call: GetCall) => Promise<Answer> | Answer;
    })
  | (OperationBase & {
      readonly method: "GET";
      readonly access: "account";
      readonly handle: (call: GetCall & OfAccount) => Promise<Answer> | Answer;
    })
  | (OperationBase & {
      readonly method: "POST";
      readonly access: "account";
      /** `body` is parsed JSON, at most as large and as deep as the limits allow. */
      readonly handle: (
        call: Call & OfAccount & { readonly body: unknown },
      ) => Promise<Answer> | Answer;
    });
