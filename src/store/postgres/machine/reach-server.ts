import { StoreError } from "../../store-error.ts";
import { connectError, readOnlyText, settingsError, type ServerSettings } from "./connect-error.ts";
import { Connection } from "./connection.ts";
import type { ServerAddress, ServerHostConfig } from "./server-address.ts";

/** A connection, and the host that it leads to. */
export interface Reached {
  readonly connection: Connection;
  readonly host: ServerHostConfig;
}

/**
 * Connects to the first host that answers and, where the address asks for it, takes writes. Rejects with a StoreError
 * that tells what is wrong with each of them; its kind is `unreachable` where one of them may be there later. Refuses a
 * server that may lose acknowledged commits, and a database that is not UTF-8. A statement has `deadlineMs`, see {@link Connection.open}.
 */
export async function reachServer(server: ServerAddress, deadlineMs: number): Promise<Reached> {
  const failures: StoreError[] = [];
  for (const host of server.hosts) {
    try {
      return { connection: await reachHost(host, { server, deadlineMs }), host };
    } catch (error) {
      failures.push(connectError(error, host));
    }
  }
  const [first, ...others] = failures;
  if (first !== undefined && others.length === 0) throw first;
  const isPassing = failures.some((failure) => failure.isPassing);
  const message = failures.map((failure) => failure.message).join("; ");
  throw new StoreError(isPassing ? "unreachable" : "failed", message, { cause: first });
}

const LOOK = `
  SELECT current_setting('transaction_read_only') AS read_only, current_setting('fsync') AS fsync,
    current_setting('server_encoding') AS server_encoding, current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit`;

async function reachHost(
  host: ServerHostConfig,
  { server, deadlineMs }: { readonly server: ServerAddress; readonly deadlineMs: number },
): Promise<Connection> {
  const connection = await Connection.open(host, deadlineMs);
  try {
    const found = await connection.get<ServerSettings & { readonly read_only: string }>(LOOK);
    if (found === undefined) throw new Error("the server tells no settings");
    const { read_only, ...settings } = found;
    const fault = settingsError(settings, host);
    if (fault !== null) throw fault;
    if (server.targetSession === "read-write" && read_only === "on") {
      throw new StoreError("unreachable", readOnlyText(host.shown));
    }
    return connection;
  } catch (error) {
    connection.destroy();
    throw error;
  }
}
