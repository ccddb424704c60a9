"""From a target to a module on the meta device."""
