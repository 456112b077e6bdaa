export { findFreePort } from "../../scripts/kit/free-port.ts";
