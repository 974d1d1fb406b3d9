from tests.module_lake import lake

__all__ = ["lake"]
