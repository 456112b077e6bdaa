import type { DaemonProcess } from "../kit/daemon-process.ts";
import { childrenOf } from "../kit/processes.ts";
import { signalProcess } from "./marked-processes.ts";

/**
 * kill -9 for the daemon and for what it has started, before that can end what it has started in turn: commands are
 * left behind, and the next daemon has to find them.
 */
export async function killWithChildren(daemon: DaemonProcess): Promise<void> {
  const children = childrenOf(daemon.pid).map(({ pid }) => pid);
  for (const pid of children) signalProcess(pid, "SIGSTOP");
  await daemon.kill();
  for (const pid of children) signalProcess(pid, "SIGKILL");
}
