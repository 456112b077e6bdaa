import type { Operation } from "../operation.ts";

/** GET /livez: the process serves requests. Restarting it would not help when this answers. */
export function livez(): Operation {
  return {
    method: "GET",
    path: "/livez",
    access: "public",
    handle: () => ({ status: 200, text: '{"status":"ok"}' }),
  };
}

/** GET /readyz: tasks can be posted now; 503 with the reason while they cannot. */
export function readyz(deps: { readonly notReadyReason: () => string | null }): Operation {
  return {
    method: "GET",
    path: "/readyz",
    access: "public",
    handle() {
      const reason = deps.notReadyReason();
      if (reason === null) return { status: 200, text: '{"status":"ok"}' };
      return { status: 503, text: JSON.stringify({ status: "unavailable", reason }) };
    },
  };
}
