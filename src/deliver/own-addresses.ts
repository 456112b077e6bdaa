import { closeSync, openSync, readSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { getSystemErrorName } from "node:util";

import { canonicalAddress, classifyAddress } from "../domain/address/address.ts";
import { codeOf, isError } from "../domain/error.ts";
import type { Logger } from "../domain/log.ts";

export interface AddressList {
  /** The source of the list, for the log. */
  readonly name: string;
  /** The advice for the log when the list cannot be read. */
  readonly remedy: string;
  /** Any spelling; empty where the system has no such list. Throws where a list exists and cannot be read. */
  read(): readonly string[];
}

interface OwnAddressesOptions {
  readonly log: Pick<Logger, "warn">;
  /** The system's lists unless given. */
  readonly lists?: readonly AddressList[];
}

/** The public addresses of this machine, from several lists, because none has all. A failed list stays as it was. */
export class OwnAddresses {
  readonly #log: Pick<Logger, "warn">;
  readonly #lists: readonly AddressList[];
  readonly #known = new Map<AddressList, readonly string[]>();
  readonly #failed = new Set<AddressList>();

  constructor({ log, lists = SYSTEM_LISTS }: OwnAddressesOptions) {
    this.#log = log;
    this.#lists = lists;
  }

  /** Reads all lists, which takes some 0.2 ms. Gives canonical text, each address once. Never throws. */
  read(): readonly string[] {
    for (const list of this.#lists) this.#readOne(list);
    return [...new Set([...this.#known.values()].flat())];
  }

  #readOne(list: AddressList): void {
    try {
      this.#known.set(list, list.read().flatMap(publicAddress));
    } catch (error) {
      if (this.#failed.has(list)) return;
      this.#failed.add(list);
      this.#log.warn(
        { list: list.name, error: errorName(error) },
        "a list of this machine's own addresses cannot be read: webhooks to an address that no other list holds " +
          `are not refused; ${list.remedy}`,
      );
    }
  }
}

// The other addresses are refused by their kind, and there can be thousands (of services in a cluster).
function publicAddress(text: string): readonly string[] {
  const address = canonicalAddress(text);
  return address !== null && classifyAddress(address).kind === "public" ? [address] : [];
}

/** The addresses for which a text like Linux's /proc/net/fib_trie delivers packets to this machine. */
export function parseFibTrie(text: string): readonly string[] {
  return [...text.matchAll(LOCAL_HOST)].map(([, address = ""]) => address);
}

// A leaf and its routes, one line each: "|-- 192.0.2.1", "/32 host LOCAL".
const LOCAL_HOST = /\|-- (\S+)\n(?: +\/\d.*\n)*? +\/32 host LOCAL\b/g;

/** The addresses in a text like Linux's /proc/net/if_inet6: 32 hexadecimal digits begin each line. */
export function parseIfInet6(text: string): readonly string[] {
  const digits = [...text.matchAll(/^[0-9a-f]{32}(?= )/gm)].map(([all]) => all);
  return digits.map((all) => all.replaceAll(/.{4}(?!$)/g, "$&:"));
}

const INTERFACES: AddressList = {
  name: "the system's list of interfaces",
  remedy: "allow netlink sockets (systemd: AF_NETLINK in RestrictAddressFamilies)",
  read: () =>
    Object.values(networkInterfaces()).flatMap((each) =>
      (each ?? []).map(({ address }) => address),
    ),
};

// Node leaves out interfaces without a carrier, but Linux still responds on their addresses.
const FIB_TRIE = procList("/proc/net/fib_trie", parseFibTrie);
const IF_INET6 = procList("/proc/net/if_inet6", parseIfInet6);

const SYSTEM_LISTS: readonly AddressList[] = [INTERFACES, FIB_TRIE, IF_INET6];

function procList(path: string, parse: (text: string) => readonly string[]): AddressList {
  return {
    name: path,
    remedy: "give public addresses to interfaces with a carrier alone",
    read: () => parse(readProc(path) ?? ""),
  };
}

// Room for 9,000 routes, which take this thread some 20 ms (1,000: 2 ms, 2026-11). A router has a million.
const PROC_LENGTH_MAX = 1024 ** 2;
const CHUNK_BYTES = 65_536;

/** Reads a file that does not state its size; null where it does not exist. */
function readProc(path: string): string | null {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
  try {
    return readWhole(file);
  } finally {
    closeSync(file);
  }
}

function readWhole(file: number): string {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let text = "";
  for (;;) {
    const count = readSync(file, chunk);
    if (count === 0) return text;
    text += chunk.toString("latin1", 0, count);
    if (text.length > PROC_LENGTH_MAX) throw new Error("too long");
  }
}

function errorName(error: unknown): string {
  if (!isError(error)) return String(error);
  const errno = "errno" in error && typeof error.errno === "number" ? error.errno : 0;
  // `networkInterfaces` throws an errno with the wrong sign, so Node finds no name for it.
  return errno === 0 ? error.message : getSystemErrorName(-Math.abs(errno));
}
