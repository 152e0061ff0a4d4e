"""verifiers 0.4.0 finds tasksets by the name of a module without dots: `vf-search-v1` is this one."""

from vf_search.verifiers_v1 import VfSearchEnv, VfSearchTaskset

__all__ = ["VfSearchEnv", "VfSearchTaskset"]
