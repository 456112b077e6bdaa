/** Stands for a step that is not built yet. */
export function missing(name: string): () => Promise<never> {
  return () => Promise.reject(new Error(`${name} is not built yet`));
}
