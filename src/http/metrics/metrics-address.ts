import { messageOf } from "../../domain/message-of.ts";
import { ListenError, type ListenAddress } from "../server/listen-error.ts";

/**
 * Calls back with the address of `metrics.listen`, a `HOST:PORT`. A {@link ListenError} of the callback becomes one that
 * names this setting.
 */
export async function atMetricsAddress<Value>(
  listen: string,
  open: (address: ListenAddress) => Promise<Value>,
): Promise<Value> {
  const at = listen.lastIndexOf(":");
  const host = listen.slice(0, at).replace(/^\[(.*)\]$/, "$1");
  try {
    return await open({ host, port: Number(listen.slice(at + 1)) });
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    const reason = messageOf(error.cause);
    const message = `cannot serve metrics on ${listen}: ${reason}; choose another address with --metrics`;
    throw new ListenError(message, { cause: error.cause });
  }
}
