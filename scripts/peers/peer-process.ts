import { cpSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { helperProcess } from "../kit/helper-process.ts";
import { NpmPackages } from "../kit/npm-packages.ts";

/** The settings of a peer's processes. */
export interface PeerSettings {
  /** Where its jobs are kept: a socket of Redis, the URL of a PostgreSQL database, or a file. */
  readonly service: string;
  /** What a request must carry as its bearer token. */
  readonly key: string;
  /** What webhooks are signed with. */
  readonly secret: string;
  /** Webhooks under way at a time. */
  readonly concurrency: number;
  /** Jobs that are fetched at a time, by peers that can. */
  readonly batch: number;
}

/** The exports of a file in `programs/`. In one process or in two, whoever is asked to work is asked to settle. */
interface PeerProgram {
  /** Serves the API, and resolves to its port. A post is answered when its jobs are in the queue. */
  serve(settings: PeerSettings): Promise<number>;
  /** Runs what is in the queue, from now until it is settled, and what comes later if it costs nothing to wait for it. */
  work(settings: PeerSettings): Promise<void>;
  /** Settles when the end of every job is recorded. Rejects when one has failed. */
  settle(): Promise<void>;
}

/** The exports of `programs/webhooks.mjs`: the part of every peer that sends. */
interface SenderProgram {
  sendAll(order: {
    readonly tasks: number;
    readonly task: Readonly<Record<string, unknown>>;
    readonly secret: string;
    readonly concurrency: number;
  }): Promise<void>;
}

const PACKAGES = new NpmPackages(import.meta.dirname);

/** Has npm install what the programs import, unless it is there, and lays the programs beside it. */
export function installPeers(note: (news: string) => void): void {
  if (!PACKAGES.isInstalled) {
    note("npm installs the peers, once");
    PACKAGES.install();
  }
  const programs = join(PACKAGES.folder, "programs");
  cpSync(join(import.meta.dirname, "programs"), programs, { recursive: true });
}

class Peer {
  #program: (PeerProgram & SenderProgram) | null = null;

  /** Loads a file of `programs/`. */
  async load(name: string): Promise<void> {
    const file = pathToFileURL(join(PACKAGES.folder, "programs", name));
    // The programs are ours, and each exports what its callers ask for.
    this.#program = (await import(file.href)) as PeerProgram & SenderProgram;
  }

  serve(settings: PeerSettings): Promise<number> {
    return this.#loaded.serve(settings);
  }

  work(settings: PeerSettings): Promise<void> {
    return this.#loaded.work(settings);
  }

  settle(): Promise<void> {
    return this.#loaded.settle();
  }

  sendAll(order: Parameters<SenderProgram["sendAll"]>[0]): Promise<void> {
    return this.#loaded.sendAll(order);
  }

  get #loaded(): PeerProgram & SenderProgram {
    if (this.#program === null) throw new Error("no program was loaded");
    return this.#program;
  }
}

/** A process of a peer. */
export class PeerProcess extends helperProcess(import.meta, Peer) {}
