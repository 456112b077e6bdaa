/**
 * Milliseconds that this thread has computed for some work. Bounds on what work may cost are held against
 * this, not against a clock: a machine that is busy with something else adds nothing to it.
 */
export async function cpuMsOf(work: () => Promise<void> | void): Promise<number> {
  const before = process.threadCpuUsage();
  await work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
