/** In a statement: true when the node with this seq has ended, so that others may take up what it had under way. */
export function hasEnded(nodeSeq: string): string {
  return `NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.seq = ${nodeSeq} AND n.ended_at IS NULL)`;
}
