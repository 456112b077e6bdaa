import type { PeerProgram } from "./peer-process.ts";

/** That `signature`, a value of X-Signature, was made over the message with the secret. */
export interface Claim {
  readonly secret: string;
  /** The raw body of a postback, the URL of a pingback. */
  readonly message: Buffer;
  readonly signature: string;
}

/** A library or a command that judges values of X-Signature. */
export interface SignaturePeer {
  readonly name: string;
  /** What it is run with; nothing for what comes with the development dependencies. */
  readonly programs: readonly PeerProgram[];
  /** Whether each claim is true, in their order. */
  judge(claims: readonly Claim[]): Promise<readonly boolean[]>;
}
