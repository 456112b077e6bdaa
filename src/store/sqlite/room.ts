import type { Connection } from "./machine/connection.ts";

export type RoomWrites = ReturnType<typeof roomWrites>;

/** The writes that find out whether there is room. */
export function roomWrites(connection: Connection) {
  return {
    /** Writes the first page of the file again, unchanged: nothing else would cause a commit. */
    rewritePage(): void {
      const version = Number(connection.pragma("user_version", { simple: true }));
      connection.pragma(`user_version = ${version}`);
    },
  };
}
