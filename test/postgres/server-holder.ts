import { PostgresServer } from "../../scripts/kit/postgres-server.ts";

/** Starts a server, says which, and waits for the end of this process. */

const { pid, folder } = await PostgresServer.start();
process.stdout.write(`${JSON.stringify({ pid, folder })}\n`);
setInterval(() => {}, 60_000);
