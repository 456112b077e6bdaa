/** The nodes that share the work, as one of them sees them. */
export interface NodeView {
  readonly self: string;
  /** All of them, each once. */
  readonly members: readonly string[];
}

/** A node that is alone. */
export const ALONE: NodeView = { self: "", members: [""] };

/**
 * How many of `max` attempts to a host this node may have under way. Where all nodes see the same members the shares
 * add up to `max`: everybody has an equal part, and the rest goes one by one to those nodes that rank highest for this
 * host (rendezvous hashing), so that of hosts with a limit of 1 each node has about as many. A share of 0 leaves the
 * host to the others.
 */
export function shareOfHost(max: number, host: string, { self, members }: NodeView): number {
  const rest = max % members.length;
  const part = (max - rest) / members.length;
  return rest > 0 && rankOf(self, host, members) < rest ? part + 1 : part;
}

/** How many of `max` attempts to all hosts this node may have under way: rounded up, so that it is never none. */
export function shareOfAll(max: number, { members }: Pick<NodeView, "members">): number {
  return Math.ceil(max / members.length);
}

/** How many nodes come before this one at a host. */
function rankOf(self: string, host: string, members: readonly string[]): number {
  const own = weightOf(self, host);
  return members.filter((each) => {
    const weight = weightOf(each, host);
    return weight > own || (weight === own && each > self);
  }).length;
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** FNV-1a over both names, and murmur3's last step: without it names that differ in their last letter rank alike. */
function weightOf(node: string, host: string): number {
  let hash = FNV_OFFSET;
  const text = `${host} ${node}`;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), FNV_PRIME);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
